#!/bin/bash
# TPU Steward: start the supervisor of this worker. The text is constant: no value of a caller is in it.
set -uo pipefail
digest="@SHA256@"
home="${EMULATOR_HOME:-/var/lib/tpu-steward}"
metadata="http://${GCE_METADATA_HOST:-metadata.google.internal}"
instance="$metadata/computeMetadata/v1/instance"

ask() {
  curl --silent --show-error --fail --noproxy '*' --max-time 60 --retry 20 --retry-delay 2 \
    --retry-connrefused --header 'Metadata-Flavor: Google' "$@"
}

give_up() {
  echo "tpu-steward: the supervisor cannot start: $1" >&2
  ask --request PUT --data "{\"v\":1,\"seq\":0,\"at\":$(date +%s),\"state\":\"UNAVAILABLE\",\"reason\":\"$1\"}" \
    "$instance/guest-attributes/steward/report"
  exit 1
}

python3 -c 'import sys; sys.exit(sys.version_info < (3, 8))' || give_up NO_PYTHON3
command -v systemd-run >/dev/null || give_up NO_SYSTEMD
mkdir -p "$home" && chmod 700 "$home" || give_up NO_SUPERVISOR
new="$home/supervisor.$$"
trap 'rm -f "$new"' EXIT
ask "$instance/attributes/steward-supervisor" | base64 --decode | gzip --decompress >"$new" ||
  give_up NO_SUPERVISOR
echo "$digest  $new" | sha256sum --check --status || give_up BAD_DIGEST
mv "$new" "$home/supervisor.py" || give_up NO_SUPERVISOR

# KillMode=process: a supervisor that dies takes nothing with it that a startup script left running.
systemd-run --unit=tpu-steward-supervisor --property=Restart=always --property=RestartSec=2 \
  --property=StartLimitIntervalSec=0 --property=KillMode=process \
  python3 -B "$home/supervisor.py" --home "$home" --metadata "$metadata" \
  --devices "${EMULATOR_DEVICES:-/dev}" \
  --logging "${EMULATOR_LOGGING:-https://logging.googleapis.com}" \
  --storage "${EMULATOR_STORAGE:-https://storage.googleapis.com}" \
  --startup-scripts "${EMULATOR_STARTUP_SCRIPTS:-run}" && exit 0
# A unit that runs already has that name, and the lock. A free lock means that systemd refused.
flock --nonblock "$home/lock" true && give_up NO_SYSTEMD
exit 0
