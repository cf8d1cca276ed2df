"""A collective operation over TCP: rank 0 collects a block from each rank and answers all.

`bench.telemetry.stuck` puts this file into a folder of libraries.
"""

from __future__ import annotations

import os
import socket
import time


class Gang:
    """The connections of one rank."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank = rank
        self.peers: list[socket.socket] = []
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        if rank == 0:
            server = socket.create_server(("0.0.0.0", port), backlog=size)
            self.peers = [server.accept()[0] for _ in range(size - 1)]
            return
        while not self.peers:
            try:
                self.peers = [socket.create_connection((host, port), timeout=5)]
                self.peers[0].settimeout(None)
            except OSError:
                time.sleep(0.2)

    def all_reduce(self, value: bool) -> bool:
        """Return whether the value is true on all ranks."""
        block = bytes([value]) * 1024
        if self.rank:
            self.peers[0].sendall(block)
            return self._receive(self.peers[0])
        together = all([value] + [self._receive(peer) for peer in self.peers])
        for peer in self.peers:
            peer.sendall(bytes([together]) * 1024)
        return together

    def _receive(self, peer: socket.socket) -> bool:
        block = b""
        while len(block) < 1024:
            piece = peer.recv(1024 - len(block))
            if not piece:
                raise SystemExit("a peer is gone")
            block += piece
        return bool(block[0])
