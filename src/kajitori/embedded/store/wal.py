"""Verification of SQLite's write-ahead log: changes that are not in the store's file yet."""

from __future__ import annotations

import struct
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from kajitori.embedded.store.errors import StoreDamaged

_WAL_HEADER = struct.Struct(">8I")
_FRAME_HEADER = struct.Struct(">6I")
_WAL_MAGIC = 0x377F0682
_WORD = 0xFFFFFFFF


def check_log(path: Path, folder: Path) -> None:
    """Check the log before SQLite opens it.

    SQLite drops everything behind a damaged frame as an unfinished write of a power failure, so acknowledged changes
    would be lost. A single commit behind a damaged frame is accepted: it may be such an unfinished write, which no
    client was told about.

    Raises:
        StoreDamaged: there are several commits behind a damaged frame.
        OSError: it cannot be read.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return
    log = WriteAheadLog(content)
    if log.head_is_bad and content.strip(b"\0"):
        raise StoreDamaged(folder, f"{path.name} has no valid header")
    sound = log.intact_frames()
    first = sound.index(False) if False in sound else len(sound)
    behind = [number for number in log.commits if number > first]
    if len(behind) > 1:
        raise StoreDamaged(folder, f"{path.name} has a damaged frame before the last {len(behind)} changes")


class WriteAheadLog:
    """The frames of the current generation of SQLite's log: each is a page as of some commit
    (https://www.sqlite.org/fileformat2.html#walformat)."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.head_is_bad = False
        self.page_size = 0
        self.pages: list[int] = []
        """The page number of each frame."""
        self.commits: list[int] = []
        """Numbers (from 1) of the frames that end a commit."""
        if len(content) > _WAL_HEADER.size:
            self._read()

    def page(self, frame: int) -> bytes:
        """Return the contents of a frame (numbered from 1)."""
        start = self._start(frame) + _FRAME_HEADER.size
        return self._content[start : start + self.page_size]

    def intact_frames(self) -> list[bool]:
        """Return for each frame whether it is the one that was written after the frame before it."""
        if not self.pages:
            return []
        import numpy  # only after a crash is there something to look at

        magic, *_, first, second = _WAL_HEADER.unpack_from(self._content)
        step = _FRAME_HEADER.size + self.page_size
        raw = numpy.frombuffer(self._content, numpy.uint8, len(self.pages) * step, _WAL_HEADER.size)
        frames = raw.reshape(len(self.pages), step)
        covered = numpy.ascontiguousarray(numpy.concatenate([frames[:, :8], frames[:, _FRAME_HEADER.size :]], axis=1))
        big = sys.byteorder == "big" if self.head_is_bad else bool(magic & 1)
        words = covered.view(">u4" if big else "<u4").astype(numpy.uint32)
        weights, power = _checksum_weights(words.shape[1] // 2)
        sums = words @ numpy.array(weights, numpy.uint32).T  # modulo 2**32, as all of it
        found = []
        for number, (of_first, of_second) in enumerate(sums.tolist(), 1):
            _, _, *salts, said_first, said_second = _FRAME_HEADER.unpack_from(self._content, self._start(number))
            reckoned = (
                (power[0][0] * first + power[0][1] * second + of_first) & _WORD,
                (power[1][0] * first + power[1][1] * second + of_second) & _WORD,
            )
            found.append(reckoned == (said_first, said_second) and salts == self._salts)
            first, second = said_first, said_second
        return found

    def _start(self, frame: int) -> int:
        return _WAL_HEADER.size + (frame - 1) * (_FRAME_HEADER.size + self.page_size)

    def _read(self) -> None:
        content = self._content
        magic, _, size, _, *salts, first, second = _WAL_HEADER.unpack_from(content)
        order = ">" if magic & 1 else "<"
        self.head_is_bad = magic & ~1 != _WAL_MAGIC or (first, second) != _checksum_of(
            struct.unpack(f"{order}6I", content[:24])
        )
        if self.head_is_bad:
            size, salts = _likeliest_generation(content)
        self._salts = salts
        self.page_size = size
        frames: list[tuple[int, ...]] = []
        while self._start(len(frames) + 2) <= len(content):
            frames.append(_FRAME_HEADER.unpack_from(content, self._start(len(frames) + 1)))
        while frames and list(frames[-1][2:4]) != salts:  # frames of an earlier generation are in the file already
            frames.pop()
        self.pages = [frame[0] for frame in frames]
        self.commits = [number for number, frame in enumerate(frames, 1) if frame[1] and list(frame[2:4]) == salts]


def _likeliest_generation(content: bytes) -> tuple[int, list[int]]:
    """Return the page size and the two salts of this generation's frames if the log's header is damaged: the values on
    which most frames agree."""
    best: tuple[int, int, list[int]] = (0, 4096, [0, 0])
    for size in (1 << power for power in range(9, 17)):
        starts = range(_WAL_HEADER.size, len(content) - size - _FRAME_HEADER.size + 1, size + _FRAME_HEADER.size)
        seen = Counter(content[start + 8 : start + 16] for start in starts)
        seen.pop(bytes(8), None)
        for salts, times in seen.most_common(1):
            best = max(best, (times, size, list(struct.unpack(">2I", salts))))
    return best[1], best[2]


def _checksum_of(words: Sequence[int]) -> tuple[int, int]:
    """Compute the two sums of SQLite's checksum."""
    first = second = 0
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & _WORD
        second = (second + odd + first) & _WORD
    return first, second


def _checksum_weights(pairs: int) -> tuple[list[list[int]], list[list[int]]]:
    """Return the weights of each word in the two sums after a number of pairs, and the weights of the previous sums:
    the checksum is linear."""
    weights: list[list[int]] = [[], []]
    power = [[1, 0], [0, 1]]
    for _ in range(pairs):
        for row in (0, 1):  # from the last pair to the first
            weights[row] += [power[row][1], (power[row][0] + power[row][1]) & _WORD]
        power = [[(row[0] + row[1]) & _WORD, (row[0] + 2 * row[1]) & _WORD] for row in power]
    return [row[::-1] for row in weights], power
