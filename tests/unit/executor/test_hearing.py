"""Hearing: what is on its way is never claimed, in whatever order things arrive; what was lost is claimed soon."""

from __future__ import annotations

import random
from contextlib import ExitStack
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from minions.executor.hearing import Ask, Claim, Hearing


@dataclass
class _Call:
    """A call for work. given: what the server acquired for it. is_open: the executor waits for it still."""

    ask: Ask
    block: ExitStack
    given: int | None = None
    is_open: bool = True


@dataclass
class _World:
    """An executor, and a server that numbers its acquirements; every request and answer takes its own time.

    on_the_way: claims with the lists that went with them, which no server has read yet. answered: claims with the
    newest acquirement at that time, on their way back."""

    hearing: Hearing = field(default_factory=Hearing)
    newest: int = 0
    calls: list[_Call] = field(default_factory=list[_Call])
    held: set[int] = field(default_factory=set[int])
    lost: set[int] = field(default_factory=set[int])
    on_the_way: list[tuple[Claim, set[int]]] = field(default_factory=list[tuple[Claim, set[int]]])
    answered: list[tuple[Claim, int]] = field(default_factory=list[tuple[Claim, int]])

    def ask(self) -> None:
        block = ExitStack()
        self.calls.append(_Call(block.enter_context(self.hearing.asking()), block))

    def acquire(self, call: _Call) -> None:
        """By the server, which may not know yet that the executor hung up."""
        if call.given is None:
            self.newest += 1
            call.given = self.newest
            if not call.is_open:
                self.lost.add(call.given)

    def hear(self, call: _Call) -> None:
        if call.is_open:
            call.ask.is_heard = True
            if call.given is not None:
                self.held.add(call.given)
            self.close(call)

    def lose(self, call: _Call) -> None:
        if call.is_open:
            if call.given is not None:
                self.lost.add(call.given)
            self.close(call)

    @staticmethod
    def close(call: _Call) -> None:
        call.is_open = False
        call.block.close()

    def claim(self) -> None:
        self.on_the_way.append((self.hearing.claim(), set(self.held)))

    def read(self, index: int) -> set[int]:
        """The server reads a claim: what it takes back of those that are owned."""
        claim, listed = self.on_the_way.pop(index)
        self.answered.append((claim, self.newest))
        until = int(claim.heard_until or 0)
        return {number for number in self.held | self.lost | self.under_way() if number <= until} - listed

    def under_way(self) -> set[int]:
        return {call.given for call in self.calls if call.is_open and call.given is not None}

    def answer(self, index: int) -> None:
        claim, newest = self.answered.pop(index)
        self.hearing.note(claim, str(newest))


STEPS = ["ask", "acquire", "acquire", "hear", "lose", "claim", "read", "answer"]


@given(st.lists(st.sampled_from(STEPS), min_size=40, max_size=120), st.randoms(use_true_random=False))
def test_what_is_held_or_on_its_way_is_never_taken_back(steps: list[str], chance: random.Random) -> None:
    world = _World()
    for step in steps:
        if step == "ask":
            world.ask()
        elif step == "claim":
            world.claim()
        elif step == "read" and world.on_the_way:
            taken = world.read(chance.randrange(len(world.on_the_way)))
            assert taken <= world.lost
            world.lost -= taken
        elif step == "answer" and world.answered:
            world.answer(chance.randrange(len(world.answered)))
        elif step in ("acquire", "hear", "lose") and world.calls:
            getattr(world, step)(chance.choice(world.calls))
    for call in world.calls:
        world.lose(call)
    _beat(world)
    assert _beat(world) >= world.lost - {0}
    assert world.hearing.is_settled


def _beat(world: _World) -> set[int]:
    world.claim()
    taken = world.read(-1)
    world.answer(-1)
    return taken


def test_two_beats_after_the_loss_take_it_back() -> None:
    world = _World()
    world.ask()
    world.acquire(world.calls[0])
    assert world.hearing.is_settled
    world.lose(world.calls[0])
    assert not world.hearing.is_settled
    assert _beat(world) == set()
    assert not world.hearing.is_settled
    assert _beat(world) == {1}
    assert world.hearing.is_settled


def test_what_an_older_open_ask_may_bring_holds_the_claim_back() -> None:
    world = _World()
    for _ in range(2):
        world.ask()
    for call in reversed(world.calls):
        world.acquire(call)
    world.lose(world.calls[1])  # it had the older number
    assert [_beat(world), _beat(world), _beat(world)] == [set(), set(), set()]
    assert not world.hearing.is_settled
    world.hear(world.calls[0])
    assert _beat(world) == {1}
    assert world.hearing.is_settled


def test_an_answer_to_a_beat_that_began_before_the_loss_settles_nothing() -> None:
    world = _World()
    world.ask()
    world.claim()
    world.read(0)
    world.acquire(world.calls[0])
    world.lose(world.calls[0])
    world.answer(0)
    assert _beat(world) == set()
    assert not world.hearing.is_settled
    assert _beat(world) == {1}


def test_a_server_that_names_no_acquirement_is_not_told_again_and_again() -> None:
    hearing = Hearing()
    with hearing.asking():
        pass
    assert not hearing.is_settled
    hearing.note(hearing.claim(), None)
    assert hearing.is_settled
    assert hearing.claim().heard_until is None
