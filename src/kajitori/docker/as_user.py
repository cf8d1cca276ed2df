"""Commands as another user than the container's.

Kubernetes runs all commands as the container's user. So the container has to run as root, and its image has to bring a
program that changes the user.
"""

from __future__ import annotations

from collections.abc import Sequence

_SCRIPT = """
user=${1%%:*} group=${1#"${1%%:*}"}; group=${group#:}; shift
die() { echo "kaji: $*" >&2; exit 126; }
uid='' gid=0 name='' home=/
while IFS=: read -r n x u g x h x; do
  if [ "$n" = "$user" ] || [ "$u" = "$user" ]; then name=$n uid=$u gid=$g home=$h; break; fi
done </etc/passwd
if [ -z "$uid" ]; then
  case $user in *[!0-9]*) die "unable to find user $user: no matching entries in passwd file" ;; esac
  uid=$user
fi
if [ -n "$group" ]; then
  gid=''
  while IFS=: read -r n x g x; do
    if [ "$n" = "$group" ]; then gid=$g; break; fi
  done </etc/group
  if [ -z "$gid" ]; then
    case $group in *[!0-9]*) die "unable to find group $group: no matching entries in group file" ;; esac
    gid=$group
  fi
fi
me=$(id -u)
if [ "$me" = "$uid" ] && { [ -z "$group" ] || [ "$(id -g)" = "$gid" ]; }; then exec "$@"; fi
if [ "$me" != 0 ]; then die "--user $user: the container runs as user $me, and only root may change to another"; fi
HOME=$home; export HOME
if setpriv --reuid "$uid" --regid "$gid" --clear-groups true 2>/dev/null; then
  if [ -n "$name" ]; then groups=--init-groups; else groups=--clear-groups; fi
  exec setpriv --reuid "$uid" --regid "$gid" "$groups" -- "$@"
fi
if chroot --userspec="$uid:$gid" / true 2>/dev/null; then
  exec chroot --userspec="${name:-$uid}:$gid" / /bin/sh -c 'cd "$0" && exec "$@"' "$PWD" "$@"
fi
why='the image has neither setpriv, nor chroot --userspec, nor su for a user with a name'
if [ -n "$name" ] && [ -z "$group" ] && command -v su >/dev/null; then
  if why=$(su -s /bin/sh -c true -- "$name" 2>&1); then exec su -s /bin/sh -c 'exec "$@"' -- "$name" sh "$@"; fi
fi
die "--user $user: $why"
"""
"""Tries the programs that images may have: setpriv of util-linux, chroot of coreutils, su of busybox. The users are
those of the image; one without an entry there has group 0, as in Docker."""


def as_user(user: str, words: Sequence[str]) -> list[str]:
    """Return the words of a command that runs as a user, written as Docker's --user: NAME or UID, and :GROUP."""
    return ["/bin/sh", "-c", _SCRIPT, "sh", user, *words]
