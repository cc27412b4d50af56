"""Whether a wish can fit under the quota that Google was heard to name. Pure.

`service.application.placement.quotas` asks when a node is asked for,
`service.controllers.lifecycle.quotas` when one is placed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from service.domain.catalog import catalog
from service.domain.clock import rfc3339
from service.domain.errors import QuotaTooSmall
from service.domain.nodes.node import NodeSpec
from service.domain.nodes.placement import HardwareKey, Outcome
from service.domain.placement.choice import candidates, describe_candidate
from service.domain.placement.cooldown import Cooldown
from service.domain.placement.quota import (
    HardwareAmount,
    Limit,
    LimitStanding,
    QuotaClaim,
    QuotaFit,
    QuotaTally,
    claim_of,
    fits,
)

SHOWN = 3
"""Limits and places that one sentence holds; of more, it says how many."""

TOLD = 20
"""Limits that a refusal lists."""


def claims(spec: NodeSpec) -> Mapping[HardwareKey, QuotaClaim]:
    """What the node would count for in each place where it may be made."""
    chips = {one.accelerator_type: one.chips for one in spec.possible}
    known = catalog.load().accelerators
    return {
        key: claim_of(key.zone, known[key.accelerator_type], key.model, chips[key.accelerator_type])
        for key in candidates(spec)
        if key.accelerator_type in known
    }


def claims_of(keys: Iterable[HardwareKey]) -> Mapping[HardwareKey, QuotaClaim]:
    """What one node of each would count for; without types that the catalogue does not know."""
    known = catalog.load().accelerators
    return {
        key: claim_of(key.zone, found, key.model, found.chips)
        for key in keys
        if (found := known.get(key.accelerator_type)) is not None
    }


def concerned(limits: Iterable[Limit], wanted: Iterable[QuotaClaim]) -> list[Limit]:
    """The limits that say anything to these claims."""
    wanted = list(wanted)
    return [limit for limit in limits if any(map(limit.covers, wanted))]


def barred(
    wanted: Mapping[HardwareKey, QuotaClaim], tallies: Iterable[QuotaTally]
) -> dict[HardwareKey, Cooldown]:
    """Where it can never fit under a limit that is believed, why, and until when that is."""
    found: dict[HardwareKey, Cooldown] = {}
    for limit, amount, keys in _grouped(wanted, tallies):
        said = f"may not have {amount} ({_worded(limit)})"
        rest = Cooldown(
            limit.believed_until, limit.observed_at, limit.place, Outcome.QUOTA, said=said
        )
        for key in keys:
            if key not in found or found[key].until < rest.until:
                found[key] = rest
    return found


def admitted(
    spec: NodeSpec, tallies: Sequence[QuotaTally], known: Iterable[Limit]
) -> tuple[str, ...]:
    """What to warn of before a node is asked for. Raises QuotaTooSmall where no place is left, with
    the zones that none of the `known` limits is too small for."""
    wanted = claims(spec)
    never = barred(wanted, tallies)
    if never and never.keys() >= set(candidates(spec)):
        raise _refusal(spec, _grouped(wanted, tallies), elsewhere(spec, known))
    open_to = {key: claim for key, claim in wanted.items() if key not in never}
    return (
        *(_left_out(*group, spec) for group in _grouped(wanted, tallies)),
        *(_doubt(tally, open_to, spec) for tally in tallies if _is_doubtful(tally, open_to)),
    )


def elsewhere(spec: NodeSpec, limits: Iterable[Limit]) -> list[str]:
    """Zones that have such hardware, and of which no limit is known that is too small."""
    known, limits = catalog.load(), list(limits)
    found: dict[str, None] = {}
    for one in spec.possible:
        accelerator = known.accelerator(one.accelerator_type)
        for zone in known.zones_for(accelerator, spec.provisioning_model):
            claim = claim_of(zone, accelerator, spec.provisioning_model, one.chips)
            if not any(limit.covers(claim) and _never(claim, limit) for limit in limits):
                found[zone] = None
    return list(found)


_Group = tuple[Limit, HardwareAmount, Sequence[HardwareKey]]
"""A limit, what is wanted of it, and all the places where that is so."""


def _grouped(
    wanted: Mapping[HardwareKey, QuotaClaim], tallies: Iterable[QuotaTally]
) -> list[_Group]:
    """What can never fit, by the limit that is believed and by how much is wanted."""
    found: defaultdict[tuple[Limit, HardwareAmount], list[HardwareKey]] = defaultdict(list)
    for tally in tallies:
        for key, claim in wanted.items():
            if tally.limit.covers(claim) and _is_barred(tally, claim):
                found[tally.limit, claim.amount].append(key)
    return [(limit, amount, keys) for (limit, amount), keys in found.items()]


def _never(claim: QuotaClaim, limit: Limit) -> bool:
    return fits(claim.amount, limit.allowed, HardwareAmount()) is QuotaFit.NEVER


def _is_barred(tally: QuotaTally, claim: QuotaClaim) -> bool:
    return tally.standing is LimitStanding.FRESH and _never(claim, tally.limit)


def _is_doubtful(tally: QuotaTally, wanted: Mapping[HardwareKey, QuotaClaim]) -> bool:
    """Whether a place that is left may have to wait, or was refused by what is no longer sure."""
    return any(_doubted(tally, claim) for claim in wanted.values())


def _doubted(tally: QuotaTally, claim: QuotaClaim) -> bool:
    if not tally.limit.covers(claim):
        return False
    if tally.standing is LimitStanding.FRESH:
        return fits(claim.amount, tally.limit.allowed, tally.used + tally.held) is QuotaFit.NOT_NOW
    return _never(claim, tally.limit)


def _doubt(tally: QuotaTally, wanted: Mapping[HardwareKey, QuotaClaim], spec: NodeSpec) -> str:
    limit = tally.limit
    keys = [key for key, claim in wanted.items() if _doubted(tally, claim)]
    need = max((wanted[key].amount for key in keys), key=lambda amount: amount.most)
    said = f"{_worded(limit)}, as it said at {rfc3339(limit.observed_at)}"
    match tally.standing:
        case LimitStanding.FRESH if need.most > limit.allowed:
            return f"{_places(keys, spec)} may be too small for {need}: {said}"
        case LimitStanding.FRESH:
            taken = f"used there: {tally.used}; held: {tally.held}"
            return (
                f"{_places(keys, spec)} may have no quota for {need} until other nodes are deleted:"
                f" {said}; {taken}"
            )
        case LimitStanding.OLD:
            return f"{said}; this limit is old, so it is tried with {need} anyway"
        case LimitStanding.CONTRADICTED:
            return f"{said}; more was granted since, so it is tried with {need} anyway"


def _left_out(
    limit: Limit, amount: HardwareAmount, keys: Sequence[HardwareKey], spec: NodeSpec
) -> str:
    until = rfc3339(limit.believed_until)
    return (
        f"not tried in {_places(keys, spec)} until {until}: it takes {amount}, and {_worded(limit)}"
    )


def _refusal(spec: NodeSpec, groups: Sequence[_Group], others: list[str]) -> QuotaTooSmall:
    said = [
        f"{_places(keys, spec)} cannot hold {amount}: {_worded(limit)}, as it said at"
        f" {rfc3339(limit.observed_at)}"
        for limit, amount, keys in groups[:SHOWN]
    ]
    if len(groups) > SHOWN:
        said.append(f"and {len(groups) - SHOWN} more limits")
    ids = dict.fromkeys(limit.id for limit, _, _ in groups)
    return QuotaTooSmall(
        f"{' or '.join(spec.accelerator_types)} ({spec.provisioning_model}) fits no quota:"
        f" {'; '.join(said)}. Ask Google for more quota, or choose another region, type or"
        " provisioning model; after a raise, run: tpu-steward catalog forget-quota"
        f" {next(iter(ids))}",
        quotas=[_fact(*group) for group in groups[:TOLD]],
        other_zones=others,
    )


def _fact(limit: Limit, amount: HardwareAmount, keys: Sequence[HardwareKey]) -> dict[str, object]:
    return {
        "id": limit.id,
        "limit": limit.name,
        "allowed": limit.allowed,
        "needed_chips": amount.chips,
        "needed_cores": amount.cores,
        "where": limit.place,
        "zones": list(dict.fromkeys(key.zone for key in keys)),
        "observed_at": rfc3339(limit.observed_at),
        "believed_until": rfc3339(limit.believed_until),
        "said": limit.said,
    }


def _worded(limit: Limit) -> str:
    name = f" {limit.name}" if limit.name else ""
    return f"Google's limit{name} is {limit.allowed:,} in {limit.place}"


def _places(keys: Sequence[HardwareKey], spec: NodeSpec) -> str:
    shown = ", ".join(describe_candidate(key, spec) for key in keys[:SHOWN])
    more = len(keys) - SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
