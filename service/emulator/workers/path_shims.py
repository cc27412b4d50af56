"""Shims first on a worker's path, for programs that must not act on this machine.

The shims serve scripts that were written for a TPU VM. They are no sandbox: a script runs as the
emulator's user, and can call `/usr/bin/curl` by its path.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

# Programs that print their command line on standard error, and succeed.
SILENT = (
    *("shutdown", "poweroff", "reboot", "halt", "systemctl", "service"),
    *("apt", "apt-get", "gcloud", "gsutil", "docker-credential-gcr", "docker-credential-gcloud"),
)
SAY = """\
#!/bin/bash
echo "${0##*/}: nothing was done by the emulator: ${0##*/} $*" >&2
"""
# Scripts of a TPU VM run as root already.
SUDO = """\
#!/bin/bash
while (($#)); do
  case $1 in
    --) shift; break ;;
    --user | --group | --host | --prompt | --chdir | --chroot) shift 2 || exit 1 ;;
    --*) shift ;;
    -*[ugpCDRTU]) shift 2 || exit 1 ;;
    -*) shift ;;
    [A-Za-z_]*=*) export "${1?}"; shift ;;
    *) break ;;
  esac
done
(($#)) || exit 0
exec "$@"
"""
HOSTNAME = """\
#!/bin/bash
case ${1-} in
  -s | --short) echo "${HOSTNAME%%.*}" ;;
  -f | --fqdn | --long) echo "$EMULATOR_FQDN" ;;
  -[iI] | --ip-address | --all-ip-addresses) echo "$EMULATOR_IP" ;;
  *) echo "$HOSTNAME" ;;
esac
"""
# Only arguments that begin like a URL are checked; the proxy of the environment gets the rest.
FETCH = """\
#!/bin/bash
args=()
for arg in "$@"; do
  if [[ $arg =~ ^(--url=)?(https?|ftps?|wss?)://([^/?#]*)(.*)$ ]]; then
    option=${BASH_REMATCH[1]} scheme=${BASH_REMATCH[2]} rest=${BASH_REMATCH[4]}
    host=${BASH_REMATCH[3]##*@}
    case $scheme:$host in
      http:metadata.google.internal | http:metadata.google.internal:80 | \\
      http:metadata.google.internal. | http:metadata | http:169.254.169.254 | \\
      http:169.254.169.254:80)
        arg=${option}http://$GCE_METADATA_HOST$rest ;;
      *:127.0.0.1 | *:127.0.0.1:* | *:localhost | *:localhost:* | *:\\[::1\\]*) ;;
      *)
        echo "${0##*/}: an emulated worker reaches nothing beyond this machine: $arg" >&2
        exit @exit@ ;;
    esac
  fi
  args+=("$arg")
done
PATH=/usr/bin:/bin exec "${0##*/}" "${args[@]}"
"""
# The interpreter of the emulator, without the options of the emulator's own start.
PYTHON = """\
#!/bin/bash
unset "${!PYTHON@}"
exec @python@ "$@"
"""
ROOT = Path(__file__).parents[3]


def install_shims(directory: Path) -> None:
    """Write the shims into a new directory, which becomes the first of a path."""
    directory.mkdir(mode=0o700)
    texts = {
        **dict.fromkeys(SILENT, SAY),
        "sudo": SUDO,
        "hostname": HOSTNAME,
        # The exit codes for an unreachable host.
        "curl": FETCH.replace("@exit@", "7"),
        "wget": FETCH.replace("@exit@", "4"),
        "systemd-run": f'#!/bin/bash\nexec {shlex.join(python_command("systemd_run"))} "$@"\n',
        "python3": PYTHON.replace("@python@", shlex.quote(sys.executable)),
    }
    for name, text in texts.items():
        path = directory / name
        path.write_text(text)
        path.chmod(0o700)


def install_docker(path: Path, settings: Mapping[str, str]) -> None:
    """Write a worker's stand-in for docker, a script that the interpreter runs without a shell.

    A shell changes the environment, from which docker takes values of containers. For the same
    reason the script contains its `settings`.
    """
    interpreter = path.with_name(".python")
    if not interpreter.is_symlink():
        interpreter.symlink_to(Path(sys.executable).resolve())
    body = (
        f"import sys\nsys.executable = {sys.executable!r}\nsys.path.append({str(ROOT)!r})\n"
        f"from {__package__}.docker.cli import main\nmain({dict(settings)!r})\n"
    )
    path.write_text(f"#!{interpreter} -ISXutf8\n{body}")
    path.chmod(0o700)


def python_command(module: str) -> list[str]:
    """Return the command that runs `main` of a module of this package, without site packages."""
    package = f"{__package__}.{module}"
    run = f"import sys; sys.path.append({str(ROOT)!r}); from {package} import main; main()"
    return [sys.executable, "-I", "-S", "-X", "utf8", "-c", run]
