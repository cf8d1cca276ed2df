"""Agents that wait for questions. Connections are made by agents alone, so that nodes may be behind any NAT.

The server holds an agent's request until a user asks for one of its members, or until the time is over. So a question
reaches a node at once, and a waiting agent costs an idle connection and one request a minute.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable

from kajitori.core.telemetry.report import Answer, Question
from kajitori.errors import NotFound, Unavailable

ANSWER_SECONDS = 8.0
"""Longest wait for a node's answer."""
NO_AGENT = "its last minutes are in kaji metrics without --rank; see kaji agent and kaji node --report"
MAX_QUESTIONS = 64
"""Most open questions per node."""


class _OpenQuestion:
    """A question and the future that its callers wait for."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.handed_out = False


class AgentLines:
    """The agents that wait at this server, and the open questions to nodes."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._open: dict[str, dict[str, _OpenQuestion]] = {}
        self._closing = False

    def __len__(self) -> int:
        return len(self._waiting)

    def is_connected(self, node: str) -> bool:
        """Whether the node's agent waits at this server now."""
        return node in self._waiting

    def close(self) -> None:
        """Answer every agent, because the server shuts down."""
        self._closing = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_result(None)

    async def wait(self, node: str, seconds: float) -> tuple[Question, ...]:
        """Return the questions for a node once there are any; nothing after `seconds`.

        An agent has one connection: if it asks again, the wait before ends.
        """
        questions = self._take(node)
        if questions or seconds <= 0 or self._closing:
            return questions
        before = self._waiting.get(node)
        if before is not None and not before.done():
            before.set_result(None)
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[node] = waiting
        timer = asyncio.get_running_loop().call_later(seconds, _settle, waiting)
        try:
            await waiting
        finally:
            timer.cancel()
            if self._waiting.get(node) is waiting:
                del self._waiting[node]
        return self._take(node)

    async def ask(
        self, node: str, uids: Iterable[str], since: float, *, fresh: bool, stacks: bool = False, detail: str = ""
    ) -> Answer:
        """Return the node's answer. Callers with the same question at the same time share one.

        Raises Unavailable if the node does not answer in time.
        """
        wanted = tuple(sorted(uids)), since, fresh, stacks, detail
        questions = self._open.setdefault(node, {})
        for open_question in questions.values():
            question = open_question.question
            if (question.uids, question.since, question.fresh, question.stacks, question.detail) == wanted:
                return await self._answer(node, open_question)
        if len(questions) >= MAX_QUESTIONS:
            raise Unavailable(f"too many users ask for node {node} now", hint="try again later")
        asked = _OpenQuestion(Question(secrets.token_hex(8), *wanted))
        questions[asked.question.id] = asked
        _settle(self._waiting.get(node))
        try:
            return await self._answer(node, asked)
        finally:
            questions.pop(asked.question.id, None)
            if not questions and self._open.get(node) is questions:
                del self._open[node]

    def settle(self, node: str, question: str, answer: Answer) -> None:
        """Pass a node's answer to the waiting callers. Raises NotFound if the question has expired."""
        open_question = self._open.get(node, {}).get(question)
        if open_question is None:
            raise NotFound("the question has expired: no caller waits for this answer")
        if not open_question.answer.done():
            open_question.answer.set_result(answer)

    async def _answer(self, node: str, asked: _OpenQuestion) -> Answer:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await asyncio.shield(asked.answer)
        except TimeoutError:
            reason = "does not answer" if asked.handed_out else "has no agent at this server"
            raise Unavailable(f"node {node} {reason}", hint=NO_AGENT) from None

    def _take(self, node: str) -> tuple[Question, ...]:
        fresh = [asked for asked in self._open.get(node, {}).values() if not asked.handed_out]
        for asked in fresh:
            asked.handed_out = True
        return tuple(asked.question for asked in fresh)


def _settle(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)
