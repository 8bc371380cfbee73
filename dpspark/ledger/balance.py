"""The balance of a dataset: what was granted, what its releases cost together, and whether one more fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Context, Decimal
from functools import cached_property

from dpspark.core.protection import Promise, Protection
from dpspark.core.suggest import did_you_mean
from dpspark.errors import LedgerError
from dpspark.privacy.budget import Budget
from dpspark.privacy.composition import Cost, compose, decimal, one_by_one, total_rho, within
from dpspark.privacy.events import Charge, Event

WARN_BELOW = 0.2  # of a grant
LOW_BUDGET = "little budget is left"  # how a warning begins


@dataclass(frozen=True)
class Entry:
    """One release in the ledger."""

    id: str
    dataset: str
    name: str
    version: str
    spec_hash: str
    budget: Budget
    state: str
    path: str
    reserved_at: str
    committed_at: str | None
    events: tuple[Event, ...] = ()
    protection: Protection | None = None  # None: not recorded, by an older dpspark
    manifest_sha256: str | None = None  # of the one draw that may be published, once staged

    @property
    def charge(self) -> Charge:
        return Charge(self.budget, self.events)


@dataclass(frozen=True)
class Account:
    """A dataset as the ledger has it."""

    dataset: str
    granted: tuple[Budget, ...]
    entries: tuple[Entry, ...]
    stated: Promise
    warn_below: float | None

    @property
    def charged(self) -> tuple[Entry, ...]:
        """The releases that count: all but those whose budget was given back."""
        return tuple(entry for entry in self.entries if entry.state != "given_back")

    @property
    def charges(self) -> list[Charge]:
        return [entry.charge for entry in self.charged]

    @property
    def promise(self) -> Promise:
        """The protection that was stated, and what releases have decided since."""
        return self.stated.after([entry.protection for entry in self.charged if entry.protection is not None])

    @property
    def in_rho(self) -> bool:
        return any(grant.rho is not None for grant in self.granted)

    @property
    def is_pure(self) -> bool:
        """Whether epsilon alone was granted: then nothing fits that has a delta, or needs one for a conversion."""
        return bool(self.granted) and not self.in_rho and not self.delta

    @property
    def epsilon(self) -> Decimal:
        return sum((decimal(grant.epsilon or 0.0) for grant in self.granted), Decimal(0))

    @property
    def delta(self) -> Decimal:
        return sum((decimal(grant.delta or 0.0) for grant in self.granted), Decimal(0))

    @property
    def rho(self) -> Decimal:
        return sum((decimal(grant.rho or 0.0) for grant in self.granted), Decimal(0))


@dataclass(frozen=True)
class Balance:
    """The budget of a dataset: what was granted and what is left.

    Under a grant in epsilon and delta, `spent_epsilon` is what all releases cost together at `spent_delta`: at all of the
    granted delta, unless plain sums are as good. Under a grant in rho the epsilons are 0, and `spent_rho` is the sum.
    """

    dataset: str
    granted_epsilon: Decimal
    granted_delta: Decimal
    spent_epsilon: Decimal
    spent_delta: Decimal
    entries: tuple[Entry, ...]
    how: str = "basic"
    one_by_one: Cost | None = None  # what the same releases would cost if they were added up
    granted_rho: Decimal | None = None
    spent_rho: Decimal | None = None
    warn_below: float = WARN_BELOW
    promise: Promise = field(default_factory=Promise)

    @property
    def left_epsilon(self) -> Decimal:
        return self.granted_epsilon - self.spent_epsilon

    @property
    def left_delta(self) -> Decimal:
        return self.granted_delta - self.spent_delta

    @property
    def left_rho(self) -> Decimal | None:
        return None if self.granted_rho is None or self.spent_rho is None else self.granted_rho - self.spent_rho

    @cached_property
    def charged(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if entry.state != "given_back")

    @property
    def warning(self) -> str | None:
        name, granted, left = "epsilon", self.granted_epsilon, self.left_epsilon
        if self.granted_rho is not None and self.left_rho is not None:
            name, granted, left = "rho", self.granted_rho, self.left_rho
        if not granted or left >= decimal(self.warn_below) * granted:
            return None
        share = max(0.0, float(left / granted))
        return f"{LOW_BUDGET}: {self.dataset} has {share:.1%} of its {name} {float(granted):g}"


def balance_of(account: Account) -> Balance:
    """Compute what the releases of a dataset cost together."""
    if account.in_rho:
        charges, zero = account.charges, Decimal(0)
        return Balance(
            account.dataset,
            *(zero, zero, zero, zero),
            account.entries,
            "zCDP",
            None,
            account.rho,
            total_rho(charges),
            _warn_below(account),
            account.promise,
        )
    cost = compose(account.charges, account.delta)
    return Balance(
        account.dataset,
        account.epsilon,
        account.delta,
        cost.epsilon,
        cost.delta,
        account.entries,
        cost.how,
        one_by_one(account.charges, account.delta),
        warn_below=_warn_below(account),
        promise=account.promise,
    )


def _warn_below(account: Account) -> float:
    return WARN_BELOW if account.warn_below is None else account.warn_below


def check_grant(account: Account, charge: Charge, url: str, known: Sequence[str] = ()) -> None:
    """Refuse a charge that the grants do not cover together with earlier ones. `known` are all datasets granted."""
    if not account.granted:
        raise _not_granted(account.dataset, url, did_you_mean(account.dataset, known))
    if account.is_pure and (charge.budget.delta or charge.budget.rho is not None):
        raise LedgerError(
            f"dataset {account.dataset}: its budget is pure (epsilon alone, delta 0), and {charge.budget} was asked.\n"
            "Give privacy.epsilon alone, with a mechanism that needs no delta; or grant a delta too."
        )
    charges = [*account.charges, charge]
    over = _over_in_rho(account, charges, charge) if account.in_rho else _over(account, charges, charge)
    if over:
        raise LedgerError(
            f"dataset {account.dataset}: not enough budget left: {charge.budget} asked, which would overspend by {over}; "
            f"{_describe_left(balance_of(account))}.\nSee: dpspark ledger show {account.dataset} --url {url}"
        )


def _not_granted(dataset: str, url: str, meant: str) -> LedgerError:
    # A grant to a misspelt name would be a second budget for the same data.
    first = "Correct ledger.dataset. Only if these are other data, run" if meant else "Run"
    grant = f"dpspark ledger grant {dataset} --epsilon E --delta D --url {url}"
    return LedgerError(f"dataset {dataset}: no budget was granted.{meant}\n{first}: {grant}")


def _describe_left(balance: Balance) -> str:
    """Say what is left, rounded down."""

    def down(value: Decimal) -> str:
        return f"{float(Context(prec=6, rounding=ROUND_FLOOR).plus(value)):.6g}"

    if balance.granted_rho is not None and balance.left_rho is not None:
        return f"rho {down(balance.left_rho)} is left of {float(balance.granted_rho):.6g}"
    if not balance.granted_delta:
        return f"epsilon {down(balance.left_epsilon)} is left of {float(balance.granted_epsilon):.6g} (pure: delta 0)"
    granted = f"epsilon {float(balance.granted_epsilon):.6g}, delta {float(balance.granted_delta):.6g}"
    at = (
        f", delta {down(balance.left_delta)}"
        if balance.how == "basic"
        else f" at delta {float(balance.spent_delta):.6g}"
    )
    return f"epsilon {down(balance.left_epsilon)}{at} is left of {granted}"


def _over_in_rho(account: Account, charges: list[Charge], charge: Charge) -> str:
    if not charge.has_rho:
        raise LedgerError(
            f"dataset {account.dataset}: its budget is in rho, and this release has no zCDP cost, only {charge.budget}.\n"
            "Use a mechanism with Gaussian noise, or a pure one."
        )
    over = total_rho(charges) - account.rho
    return f"rho {float(over):.6g}" if over > 0 else ""


def _over(account: Account, charges: list[Charge], charge: Charge) -> str:
    # What one release claims by itself is on its certificate: never more than the steward granted, even where it would
    # cost less at the granted delta.
    epsilon, delta = decimal(charge.budget.epsilon or 0.0), decimal(charge.budget.delta or 0.0)
    if not within(charges, account.epsilon, account.delta):
        cost = compose(charges, account.delta)
        if not cost.epsilon.is_finite():
            return "any epsilon: no delta is left to convert rho at"
        epsilon, delta = max(epsilon, cost.epsilon), max(delta, cost.delta)
    over = {"epsilon": epsilon - account.epsilon, "delta": delta - account.delta}
    return " and ".join(f"{name} {float(by):.6g}" for name, by in over.items() if by > 0)
