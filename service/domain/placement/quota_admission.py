"""Decides whether a request fits under the learned quota limits. Pure.

`service.application.placement.quotas` calls it when a node is requested,
`service.controllers.lifecycle.quota` when a node is placed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from service.domain.catalog import catalog
from service.domain.clock import to_rfc3339
from service.domain.errors import QuotaTooSmall
from service.domain.nodes.node import NodeSpec
from service.domain.nodes.placement import HardwareKey, Outcome
from service.domain.placement.choice import describe_candidate, list_candidates
from service.domain.placement.cooldown import Cooldown
from service.domain.placement.quota import (
    HardwareAmount,
    Limit,
    LimitStanding,
    QuotaClaim,
    QuotaFit,
    QuotaTally,
    claim_of,
    judge_fit,
)

SHOWN = 3
"""Limits and places that one sentence names; it counts the others."""

TOLD = 20
"""Limits that a refusal lists."""


def claims_by_key(spec: NodeSpec) -> Mapping[HardwareKey, QuotaClaim]:
    """The quota claim for the admission of a node, in each place where it may be created."""
    chips = {hardware.accelerator_type: hardware.chips for hardware in spec.possible_hardware}
    known = catalog.load_catalog().accelerators
    return {
        key: claim_of(key.zone, known[key.accelerator_type], key.model, chips[key.accelerator_type])
        for key in list_candidates(spec)
        if key.accelerator_type in known
    }


def claims_of(keys: Iterable[HardwareKey]) -> Mapping[HardwareKey, QuotaClaim]:
    """The quota claims for the admission of one node of each key. Types that the catalogue does not
    know are left out."""
    known = catalog.load_catalog().accelerators
    return {
        key: claim_of(key.zone, found, key.model, found.chips)
        for key in keys
        if (found := known.get(key.accelerator_type)) is not None
    }


def filter_limits(limits: Iterable[Limit], wanted: Iterable[QuotaClaim]) -> list[Limit]:
    """The quota limits that an admission checks: those that apply to any of these claims."""
    wanted = list(wanted)
    return [limit for limit in limits if any(map(limit.applies_to, wanted))]


def find_barred(
    wanted: Mapping[HardwareKey, QuotaClaim], tallies: Iterable[QuotaTally]
) -> dict[HardwareKey, Cooldown]:
    """A cooldown for each place where a believed quota limit can never admit the node."""
    found: dict[HardwareKey, Cooldown] = {}
    for limit, amount, keys in _group_by_limit(wanted, tallies):
        said = f"may not have {amount} ({_describe_limit(limit)})"
        rest = Cooldown(
            limit.believed_until, limit.observed_at, limit.place, Outcome.QUOTA, said=said
        )
        for key in keys:
            if key not in found or found[key].until < rest.until:
                found[key] = rest
    return found


def check_admission(
    spec: NodeSpec, tallies: Sequence[QuotaTally], known: Iterable[Limit]
) -> tuple[str, ...]:
    """The warnings about quota before a node is created.

    Raises QuotaTooSmall if no place is left, with the zones for which none of the `known` limits is
    too small.
    """
    wanted = claims_by_key(spec)
    never = find_barred(wanted, tallies)
    groups = _group_by_limit(wanted, tallies)
    if never and never.keys() >= set(list_candidates(spec)):
        raise _make_refusal(spec, groups, zones_elsewhere(spec, known))
    left_out = [
        f"not tried in {_describe_places(keys, spec)} until {to_rfc3339(limit.believed_until)}:"
        f" it takes {amount}, and {_describe_limit(limit)}"
        for limit, amount, keys in groups
    ]
    open_to = {key: claim for key, claim in wanted.items() if key not in never}
    doubtful = [
        _describe_doubt(tally, open_to, spec)
        for tally in tallies
        if any(_is_doubted(tally, claim) for claim in open_to.values())
    ]
    return (*left_out, *doubtful)


def zones_elsewhere(spec: NodeSpec, limits: Iterable[Limit]) -> list[str]:
    """Zones that offer such hardware, without a known quota limit that is too small to admit it."""
    known, limits = catalog.load_catalog(), list(limits)
    found: dict[str, None] = {}
    for hardware in spec.possible_hardware:
        accelerator = known.get_accelerator(hardware.accelerator_type)
        for zone in known.zones_for(accelerator, spec.provisioning_model):
            claim = claim_of(zone, accelerator, spec.provisioning_model, hardware.chips)
            if not any(limit.applies_to(claim) and _never_fits(claim, limit) for limit in limits):
                found[zone] = None
    return list(found)


_Group = tuple[Limit, HardwareAmount, Sequence[HardwareKey]]
"""A limit, the amount that exceeds it, and all the places of that."""


def _group_by_limit(
    wanted: Mapping[HardwareKey, QuotaClaim], tallies: Iterable[QuotaTally]
) -> list[_Group]:
    """The places that can never fit, by the believed limit and by the requested amount."""
    found: defaultdict[tuple[Limit, HardwareAmount], list[HardwareKey]] = defaultdict(list)
    for tally in tallies:
        limit, is_fresh = tally.limit, tally.standing is LimitStanding.FRESH
        for key, claim in wanted.items():
            if is_fresh and limit.applies_to(claim) and _never_fits(claim, limit):
                found[limit, claim.amount].append(key)
    return [(limit, amount, keys) for (limit, amount), keys in found.items()]


def _never_fits(claim: QuotaClaim, limit: Limit) -> bool:
    return judge_fit(claim.amount, limit.allowed, HardwareAmount()) is QuotaFit.NEVER


def _is_doubted(tally: QuotaTally, claim: QuotaClaim) -> bool:
    """Whether a claim may have to wait, or exceeds a limit that is no longer believed."""
    if not tally.limit.applies_to(claim):
        return False
    if tally.standing is LimitStanding.FRESH:
        return (
            judge_fit(claim.amount, tally.limit.allowed, tally.used + tally.held)
            is QuotaFit.NOT_NOW
        )
    return _never_fits(claim, tally.limit)


def _describe_doubt(
    tally: QuotaTally, wanted: Mapping[HardwareKey, QuotaClaim], spec: NodeSpec
) -> str:
    limit = tally.limit
    keys = [key for key, claim in wanted.items() if _is_doubted(tally, claim)]
    need = max((wanted[key].amount for key in keys), key=lambda amount: amount.larger_count)
    said = f"{_describe_limit(limit)}, as it said at {to_rfc3339(limit.observed_at)}"
    match tally.standing:
        case LimitStanding.FRESH if need.larger_count > limit.allowed:
            return f"{_describe_places(keys, spec)} may be too small for {need}: {said}"
        case LimitStanding.FRESH:
            taken = f"used there: {tally.used}; held: {tally.held}"
            return (
                f"{_describe_places(keys, spec)} may have no quota for {need} until other nodes are"
                f" deleted: {said}; {taken}"
            )
        case LimitStanding.OLD:
            return f"{said}; this limit is old, so it is tried with {need} anyway"
        case LimitStanding.CONTRADICTED:
            return f"{said}; more was granted since, so it is tried with {need} anyway"


def _make_refusal(spec: NodeSpec, groups: Sequence[_Group], others: list[str]) -> QuotaTooSmall:
    said = [
        f"{_describe_places(keys, spec)} cannot hold {amount}: {_describe_limit(limit)}, as it said"
        f" at {to_rfc3339(limit.observed_at)}"
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
        quotas=[
            {
                "id": limit.id,
                "limit": limit.name,
                "allowed": limit.allowed,
                "needed_chips": amount.chips,
                "needed_cores": amount.cores,
                "where": limit.place,
                "zones": list(dict.fromkeys(key.zone for key in keys)),
                "observed_at": to_rfc3339(limit.observed_at),
                "believed_until": to_rfc3339(limit.believed_until),
                "said": limit.said,
            }
            for limit, amount, keys in groups[:TOLD]
        ],
        other_zones=others,
    )


def _describe_limit(limit: Limit) -> str:
    name = f" {limit.name}" if limit.name else ""
    return f"Google's limit{name} is {limit.allowed:,} in {limit.place}"


def _describe_places(keys: Sequence[HardwareKey], spec: NodeSpec) -> str:
    shown = ", ".join(describe_candidate(key, spec) for key in keys[:SHOWN])
    more = len(keys) - SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
