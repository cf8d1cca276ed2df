"""Completion of the word at the cursor in a line that begins with `kaji`.

The script of a shell (`SCRIPTS`) calls `kaji` with `COMPLETING` in its environment and the words of the line. It is
answered by lines of a kind, a value and a help, with tabs between them:

    prefix  VALUE        the current word begins with it, and what follows is for the rest of the word
    plain   VALUE  HELP  a whole word
    part    VALUE  HELP  the beginning of a word: no space belongs behind it
    file                 files and folders, which the shell knows best
    dir                  folders
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, ShellComplete, split_arg_string

from kajitori.cli.context import COMPLETING
from kajitori.cli.terminal import echo_as_is, one_line

if TYPE_CHECKING:
    from kajitori.cli.context import Cli

_BASH = """\
_kaji() {
    local kaji=$1 kind value help files= dirs=
    type -P "$kaji" > /dev/null || kaji=kaji
    COMPREPLY=()
    while IFS=$'\\t' read -r kind value help; do
        case $kind in
            plain) COMPREPLY+=("$value") ;;
            part) COMPREPLY+=("$value"); compopt -o nospace 2> /dev/null ;;
            file) files=1 ;;
            dir) dirs=1 ;;
        esac
    done < <(VARIABLE=bash "$kaji" "$COMP_CWORD" "$COMP_POINT" "$COMP_LINE" "${COMP_WORDS[@]}" 2> /dev/null)
    if [[ $files && ${#COMPREPLY[@]} -gt 0 ]]; then
        while IFS= read -r value; do
            COMPREPLY+=("$value")
        done < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
        compopt -o filenames 2> /dev/null
    elif [[ $files ]]; then
        compopt -o default 2> /dev/null
    elif [[ $dirs && ${#COMPREPLY[@]} -gt 0 ]]; then
        compopt -o plusdirs 2> /dev/null
    elif [[ $dirs ]]; then
        compopt -o dirnames 2> /dev/null
    fi
}
complete -o nosort -F _kaji kaji 2> /dev/null || complete -F _kaji kaji
"""

_ZSH = """\
#compdef kaji
_kaji() {
    local kaji=${words[1]} line kind value help files= dirs=
    local -a described parts
    (( $+commands[$kaji] )) || [[ -x $kaji ]] || kaji=kaji
    for line in ${(f)"$(VARIABLE=zsh $kaji "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2> /dev/null)"}; do
        kind=${line%%$'\\t'*}
        value=${${line#*$'\\t'}%%$'\\t'*}
        help=${line##*$'\\t'}
        case $kind in
            prefix) compset -P "${(b)value}" ;;
            plain) described+=("${value//:/\\\\:}:$help") ;;
            part) parts+=("$value") ;;
            file) files=1 ;;
            dir) dirs=1 ;;
        esac
    done
    (( $#described )) && _describe -V kaji described
    (( $#parts )) && compadd -V parts -S '' -- $parts
    [[ -n $files ]] && _files
    [[ -n $dirs ]] && _files -/
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _kaji "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
    compdef _kaji kaji
fi
"""

_FISH = """\
function _kaji
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l prefix ''
    for line in (env VARIABLE=fish $words[1] $words[2..-1] "$current" 2> /dev/null)
        set -l parts (string split -m 2 \\t -- $line)
        set -l rest (string sub -s (math (string length -- "$prefix") + 1) -- "$current")
        switch $parts[1]
            case prefix
                set prefix $parts[2]
            case plain part
                printf '%s\\t%s\\n' "$prefix$parts[2]" "$parts[3]"
            case file
                for path in (__fish_complete_path "$rest")
                    echo "$prefix$path"
                end
            case dir
                for path in (__fish_complete_directories "$rest")
                    echo "$prefix$path"
                end
        end
    end
end
complete -c kaji -f -k -a '(_kaji)'
"""

SCRIPTS = {
    shell: script.replace("VARIABLE", COMPLETING) for shell, script in (("bash", _BASH), ("zsh", _ZSH), ("fish", _FISH))
}


def answer_shell(root: click.Group, cli: Cli, shell: str, args: Sequence[str]) -> int:
    """Print the completions that a shell's script asks for."""
    words, current, kept = read_bash(args) if shell == "bash" else ([*args[:-1]], "".join(args[-1:]), 0)
    prefix = current[: current.find("=") + 1] if current.startswith("-") else ""
    if prefix and shell != "bash":
        echo_as_is(f"prefix\t{one_line(prefix)}\t")
    for item in offered(root, cli, words, current):
        value = one_line(str(item.value))
        if shell == "bash":  # it wants what comes behind the part of the word that it leaves alone
            value = f"{prefix}{value}"[kept:]
        if item.type in ("file", "dir"):
            echo_as_is(item.type)
        elif value:
            echo_as_is(f"{item.type}\t{value}\t{one_line(item.help or '').replace(chr(9), ' ')}")
    return 0


def offered(root: click.Group, cli: Cli, words: Sequence[str], current: str) -> list[CompletionItem[str]]:
    """Return the completions of `current`, the word after `words`."""
    if _is_of_the_program(root, cli, words):
        return [CompletionItem(current, type="file")]
    return ShellComplete(root, {"obj": cli}, "kaji", "").get_completions(list(words), current)


def _is_of_the_program(root: click.Group, cli: Cli, words: Sequence[str]) -> bool:
    """Return whether the next word belongs to the run's program, which has its own options."""
    rest = list(words)
    while rest and rest[0].startswith("-"):
        rest = rest[2 if rest[0] == "--cluster" else 1 :]
    with click.Context(root, info_name="kaji", obj=cli, resilient_parsing=True) as ctx:
        command = root.get_command(ctx, rest[0]) if rest else None
        if command is None or all(parameter.name != "image" for parameter in command.params):
            return False
        read = command.make_context(rest[0], rest[1:], parent=ctx, resilient_parsing=True).params
        return read.get("image") is not None


def read_bash(args: Sequence[str]) -> tuple[list[str], str, int]:
    """The words before the current one, the current one up to the cursor, and how much of the latter bash leaves alone.

    bash breaks words at `=` and `:`, too. `args` are the index of its current word, the place of the cursor in the
    line, the line, and its words. Words without a space between them belong together.
    """
    number, point, line = int(args[0]), int(args[1]), args[2]
    words: list[str] = []
    end, kept = -1, 0
    for index, part in enumerate(args[3 : 4 + number]):
        begin = line.find(part, max(end, 0)) if part else end + 1
        if begin < 0:  # bash rewrote the line; its own words are all there is
            begin = end + 1
        text = line[begin:point] if index == number else part
        if begin == end and words:
            kept = len(_unquote(words[-1]))
            words[-1] += text
        else:
            kept = 0
            words.append(text)
        end = begin + len(part)
    if words and words[-1][-1:] in ("=", ":") and text in ("=", ":"):
        kept = len(_unquote(words[-1]))
    before = [_unquote(word) for word in words[1:-1]]
    return before, _unquote(words[-1]) if len(words) > 1 else "", kept


def _unquote(word: str) -> str:
    return "".join(split_arg_string(word))
