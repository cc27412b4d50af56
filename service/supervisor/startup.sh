#!/bin/bash
# TPU Steward: start the supervisor and the meter of this worker, and run the caller's own startup
# script once in each boot. The text is constant: no value of a caller is in it.
set -uo pipefail
digest="@SHA256@"
meter_digest="@METER_SHA256@"
home="${EMULATOR_HOME:-/var/lib/tpu-steward}"
metadata="http://${GCE_METADATA_HOST:-metadata.google.internal}"
instance="$metadata/computeMetadata/v1/instance"
boot="$(cat "${EMULATOR_BOOT_ID_FILE:-/proc/sys/kernel/random/boot_id}")"

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

# What the supervisor reports of the caller's script; no job starts before it has ended.
note() {
  echo "{\"state\":\"$1\",\"exit_code\":$2}" >"$home/startup.new" && mv "$home/startup.new" "$home/startup.json"
}

# This script may be killed before it can note that the caller's has ended: no job would start then.
watch() {
  while kill -0 $$ 2>/dev/null; do sleep 2; done
  if grep -q '"running"' "$home/startup.json"; then note exited null; fi
}

start_supervisor() {
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 8))' || give_up NO_PYTHON3
  command -v systemd-run >/dev/null || give_up NO_SYSTEMD
  new="$home/supervisor.$$"
  ask "$instance/attributes/steward-supervisor" | base64 --decode | gzip --decompress >"$new" ||
    give_up NO_SUPERVISOR
  echo "$digest  $new" | sha256sum --check --status || give_up BAD_DIGEST
  mv "$new" "$home/supervisor.py" || give_up NO_SUPERVISOR
  systemd-run --unit=tpu-steward-supervisor --property=Restart=always --property=RestartSec=2 \
    --property=StartLimitIntervalSec=0 flock --no-fork --nonblock "$home/lock" \
    python3 -B "$home/supervisor.py" --home "$home" --metadata "$metadata" --digest "${digest:0:12}" \
    --boot "$boot" --devices "${EMULATOR_DEVICES:-/dev}" \
    --logging "${EMULATOR_LOGGING:-https://logging.googleapis.com}" \
    --storage "${EMULATOR_STORAGE:-https://storage.googleapis.com}" && return
  # A unit that runs already has that name, and the lock. A free lock means that systemd refused.
  flock --nonblock "$home/lock" true && give_up NO_SYSTEMD
  return 0
}

# The meter reports what the machine does. No job and no script waits for it, or fails with it.
start_meter() {
  new="$home/meter.$$"
  ask "$instance/attributes/steward-meter" | base64 --decode | gzip --decompress >"$new" &&
    echo "$meter_digest  $new" | sha256sum --check --status && mv "$new" "$home/meter.py" &&
    systemd-run --unit=tpu-steward-meter --property=Restart=always --property=RestartSec=5 \
      --property=StartLimitIntervalSec=0 flock --no-fork --nonblock "$home/meter.lock" \
      python3 -B "$home/meter.py" --home "$home" --metadata "$metadata" --boot "$boot" \
      --devices "${EMULATOR_DEVICES:-/dev}" --proc "${EMULATOR_PROC:-/proc}" \
      --speed "${EMULATOR_SPEED:-1}" && return
  rm -f "$new"
  # A meter that runs already holds the lock.
  flock --nonblock "$home/meter.lock" echo "tpu-steward: the meter cannot start" >&2
}

mkdir -p "$home" && chmod 700 "$home" || give_up NO_SUPERVISOR
state=old
trap '[ $state = running ] && note exited null; rm -f "$home/supervisor.$$"' EXIT
if [ "$(cat "$home/boot" 2>/dev/null)" != "$boot" ]; then
  ask --output "$home/script" "$instance/attributes/steward-startup-script" 2>/dev/null && state=running || state=none
  [ $state = running ] && [ "${EMULATOR_STARTUP_SCRIPTS:-run}" = record ] && state=recorded
  note $state null && echo "$boot" >"$home/boot"
fi
(start_supervisor)
result=$?
start_meter </dev/null >/dev/null &
if [ $state = running ]; then
  watch </dev/null >/dev/null 2>&1 &
  chmod 700 "$home/script" && bash -c "$home/script" </dev/null
  note exited $?
  state=exited
fi
exit $result
