"""The list of mutations: mistakes that a developer could make, with the tests that notice them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutation:
    """One mistake. `before` occurs once in `file` (a path below `service/`), and `after` replaces
    it. `tests` are the paths of the nearest tests, below `tests/`."""

    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]

    def apply_to(self, source: str) -> str:
        """The text of the file with the mistake. Raises ValueError unless `before` occurs once."""
        found = source.count(self.before)
        if found != 1:
            raise ValueError(f"{self.name}: its text occurs {found} times in service/{self.file}")
        return source.replace(self.before, self.after)


_DOMAIN = (
    Mutation(
        "an-intent-is-sent-so-late-that-its-answer-comes-after-the-horizon",
        "domain/lifecycle/in_flight.py",
        "SEND_WITHIN_SECONDS = 60",
        "SEND_WITHIN_SECONDS = 120",
        ("cloud/google/test_retries.py", "domain/lifecycle/test_lifecycle.py"),
    ),
    Mutation(
        "a-lost-answer-is-given-up-before-its-call-can-have-landed",
        "domain/lifecycle/in_flight.py",
        "IN_FLIGHT_SECONDS = 180",
        "IN_FLIGHT_SECONDS = 120",
        ("cloud/google/test_retries.py", "domain/lifecycle/test_lifecycle.py"),
    ),
    Mutation(
        "a-node-ends-a-second-after-its-time-to-live",
        "domain/lifecycle/expiry.py",
        "over = node.deletes_at is not None and now >= node.deletes_at",
        "over = node.deletes_at is not None and now > node.deletes_at",
        ("domain/lifecycle/test_lifecycle.py",),
    ),
    Mutation(
        "an-unreadable-label-protects-no-node-that-has-another-keep",
        "domain/nodes/keep.py",
        "is_longer = by_label.until is None or by_label.until > node.kept_until",
        "is_longer = by_label.until is not None and by_label.until > node.kept_until",
        ("domain/nodes/test_keep.py",),
    ),
    Mutation(
        "a-keep-that-was-ended-by-hand-leads-to-no-notice",
        "domain/lifecycle/expiry.py",
        "was_kept = (node.ends_after_keep == TTL_HELD or outlived) and not is_on_notice(node)",
        "was_kept = outlived and not is_on_notice(node)",
        ("domain/lifecycle/test_expiry.py",),
    ),
    Mutation(
        "a-keep-that-no-daemon-saw-does-not-cancel-the-notice",
        "domain/idle/assess.py",
        "is_kept=is_kept(subject, now) or was_kept,",
        "is_kept=is_kept(subject, now),",
        ("domain/idle/test_course.py",),
    ),
    Mutation(
        "work-does-not-reset-the-idle-countdown",
        "domain/idle/course.py",
        "return CourseChange(_restart_in(before, state, now))",
        "return CourseChange(_in_state(before, state, now))",
        ("domain/idle/test_course.py",),
    ),
    Mutation(
        "work-between-two-looks-does-not-end-the-rest-of-the-notice",
        "domain/idle/course.py",
        "rest_since is not None and rest_since > notified_at:",
        "rest_since is not None and rest_since > now:",
        ("domain/idle/test_course.py",),
    ),
    Mutation(
        "after-a-takeover-an-owner-loses-two-nodes-in-one-tick",
        "domain/idle/rails.py",
        "shares = {end.share for end in just}",
        "shares: set[str] = set()",
        ("domain/idle/test_rails.py",),
    ),
    Mutation(
        "half-of-the-fleet-counts-as-more-than-half",
        "domain/idle/rails.py",
        "candidates > MASS_NODES and 2 * candidates > live",
        "candidates > MASS_NODES and 2 * candidates >= live",
        ("domain/idle/test_rails.py",),
    ),
    Mutation(
        "each-part-of-a-charge-is-rounded-by-itself",
        "domain/metering/meter.py",
        "return half_even(total * units, HOUR) - half_even(before * units, HOUR)",
        "return half_even((total - before) * units, HOUR)",
        ("domain/metering/test_meter.py",),
    ),
    Mutation(
        "of-two-changes-of-the-payer-in-a-second-the-later-one-is-in-the-past",
        "domain/metering/attribution.py",
        "since = max(now, latest.since + 1)",
        "since = min(now, latest.since + 1)",
        ("domain/metering/test_attribution.py",),
    ),
    Mutation(
        "a-price-begins-a-second-late",
        "domain/pricing/price_book.py",
        "index = bisect_right(self._starts.get(key, ()), instant)",
        "index = bisect_right(self._starts.get(key, ()), instant - 1)",
        ("domain/pricing/test_price_book.py",),
    ),
    Mutation(
        "a-discount-ends-a-second-late",
        "domain/pricing/discounts.py",
        "self.effective_until is None or instant < self.effective_until",
        "self.effective_until is None or instant <= self.effective_until",
        ("domain/pricing/test_discounts.py",),
    ),
    Mutation(
        "a-hold-forgets-the-usage-that-is-not-posted",
        "domain/budgets/admission.py",
        "begin = now if self.unposted_since is None else min(now, self.unposted_since)",
        "begin = now if self.unposted_since is None else max(now, self.unposted_since)",
        ("domain/budgets/test_admission.py",),
    ),
    Mutation(
        "a-hold-is-released-while-its-node-is-still-being-stopped",
        "domain/budgets/admission.py",
        "return self.asked is Asked.STOPPED and self.state == NodeState.STOPPED",
        "return self.asked is Asked.STOPPED",
        ("domain/budgets/test_admission.py",),
    ),
    Mutation(
        "a-node-that-fits-exactly-is-refused",
        "domain/budgets/admission.py",
        "if wanted > left and (tight is None or left < tight[2]):",
        "if wanted >= left and (tight is None or left < tight[2]):",
        ("domain/budgets/test_admission.py",),
    ),
    Mutation(
        "the-budget-with-the-most-room-is-named-in-a-refusal",
        "domain/budgets/admission.py",
        "if wanted > left and (tight is None or left < tight[2]):",
        "if wanted > left and (tight is None or left > tight[2]):",
        ("domain/budgets/test_admission.py",),
    ),
    Mutation(
        "a-threshold-of-the-forecast-counts-as-told-by-that-of-the-spend",
        "domain/budgets/alerts.py",
        'f"{threshold.of}:{percent}",',
        'f"{Measure.ACTUAL}:{percent}",',
        ("domain/budgets/test_alerts.py",),
    ),
    Mutation(
        "an-alert-of-the-last-period-counts-for-this-one",
        "domain/budgets/alerts.py",
        "fired = before.fired_at if before.period == standing.window.start else None",
        "fired = before.fired_at",
        ("domain/budgets/test_alerts.py",),
    ),
    Mutation(
        "a-budget-that-is-spent-exactly-counts-as-exceeded",
        "domain/budgets/alerts.py",
        "        standing.spent > amount,\n",
        "        standing.spent >= amount,\n",
        ("domain/budgets/test_alerts.py",),
    ),
    Mutation(
        "a-threshold-is-armed-again-above-itself",
        "domain/budgets/alerts.py",
        "value * 100 < (percent - HYSTERESIS) * amount",
        "value * 100 < (percent + HYSTERESIS) * amount",
        ("domain/budgets/test_alerts.py",),
    ),
    Mutation(
        "of-two-cooldowns-the-shorter-one-holds",
        "domain/placement/cooldown.py",
        "if key not in cooldowns or cooldowns[key].until < rest.until:",
        "if key not in cooldowns or cooldowns[key].until > rest.until:",
        ("domain/placement/test_cooldown.py",),
    ),
)

_STORE = (
    Mutation(
        "a-budget-is-written-over-another-change",
        "store/budgets.py",
        ".where(budgets.c.id == budget.id, budgets.c.version == budget.version)",
        ".where(budgets.c.id == budget.id)",
        ("store/test_records.py",),
    ),
    Mutation(
        "a-node-that-is-listed-again-keeps-its-version",
        "store/nodes.py",
        ".values(misses=0, missed_at=None, version=nodes.c.version + 1)",
        ".values(misses=0, missed_at=None)",
        ("store/test_nodes.py", "controllers/test_absence.py"),
    ),
    Mutation(
        "a-job-that-is-woken-keeps-its-version",
        "store/jobs.py",
        ".values(next_try_at=now, version=jobs.c.version + 1)",
        ".values(next_try_at=now)",
        ("store/test_jobs.py",),
    ),
    Mutation(
        "a-link-can-be-used-by-two-at-the-same-time",
        "store/links.py",
        "            .where(cleanup_links.c.version == link.version)\n",
        "",
        ("store/test_cleanup.py",),
    ),
    Mutation(
        "a-takeover-does-not-begin-a-new-epoch",
        "store/leases.py",
        '"epoch": leases.c.epoch + 1,',
        '"epoch": leases.c.epoch,',
        ("store/test_leases.py",),
    ),
    Mutation(
        "two-daemons-claim-the-same-message",
        "store/notifications.py",
        "            notifications.c.next_try_at == notification.next_try_at,\n        )",
        "        )",
        ("controllers/test_notifications.py",),
    ),
)

_APPLICATION = (
    Mutation(
        "an-idempotency-key-counts-for-every-caller",
        "application/nodes/nodes.py",
        'scope = f"nodes/{actor}"',
        'scope = "nodes"',
        ("application/test_idempotency.py",),
    ),
    Mutation(
        "a-budget-of-the-last-period-is-shown-as-exceeded",
        "application/attention/attention.py",
        "if alert.period == window.start:",
        "if alert.period <= window.start:",
        ("application/attention/test_attention.py",),
    ),
    Mutation(
        "any-alarm-of-a-node-hides-the-one-about-its-keep",
        "application/cleanup/daemon.py",
        "if any(event.message == message for event in alarms):",
        "if alarms:",
        ("controllers/idle/test_idle.py",),
    ),
)

_CONTROLLERS = (
    Mutation(
        "a-message-is-claimed-for-less-time-than-its-sending-may-take",
        "controllers/notifications.py",
        "CLAIM_SECONDS = 300",
        "CLAIM_SECONDS = 200",
        ("controllers/test_notifications.py",),
    ),
    Mutation(
        "the-announcement-of-another-budget-counts",
        "controllers/budgets/budgets.py",
        'return next((event.at for event in events if event.facts.get("budget_id") == budget.id)'
        ", None)",
        "return next((event.at for event in events), None)",
        ("controllers/budgets/test_budgets.py",),
    ),
    Mutation(
        "of-several-slices-one-is-deleted-per-look",
        "controllers/lifecycle/teardown.py",
        "self._context.cloud_under_lease(lease).delete(place_of(node, number))\n",
        "self._context.cloud_under_lease(lease).delete(place_of(node, number))\n"
        "                break\n",
        ("controllers/lifecycle/test_teardown.py",),
    ),
    Mutation(
        "an-earlier-event-hides-the-cause-of-a-deletion",
        "controllers/lifecycle/teardown.py",
        "if all(event.message != message for event in events):",
        "if not events:",
        ("controllers/lifecycle/test_teardown.py",),
    ),
    Mutation(
        "a-queued-resource-is-deleted-without-the-lease",
        "controllers/lifecycle/teardown.py",
        "operation = self._context.cloud_under_lease(lease).dequeue(node.place, force=True)",
        "operation = self._context.cloud.dequeue(node.place, force=True)",
        ("controllers/lifecycle/test_teardown.py",),
    ),
    Mutation(
        "a-node-is-created-without-the-lease",
        "controllers/lifecycle/launch.py",
        "cloud = self._context.cloud_under_lease(lease)",
        "cloud = self._context.cloud",
        ("controllers/lifecycle/test_launch.py",),
    ),
    Mutation(
        "a-step-of-the-lifecycle-is-saved-without-the-lease",
        "controllers/lifecycle/context.py",
        "with self.units(lease) as unit:",
        "with self.units() as unit:",
        ("controllers/lifecycle/test_lifecycle.py", "controllers/lifecycle/test_launch.py"),
    ),
    Mutation(
        "an-orphan-is-deleted-without-the-lease",
        "controllers/orphans/deletion.py",
        "cloud_under_lease(self._cloud, self._units, lease).delete(place)",
        "self._cloud.delete(place)",
        ("controllers/orphans/test_orphans.py",),
    ),
    Mutation(
        "zones-without-an-answer-about-queued-resources-are-ignored",
        "controllers/orphans/diff.py",
        "return frozenset(nodes) | {(True, zone) for zone in self.queue.unreachable}",
        "return frozenset(nodes)",
        ("controllers/orphans/test_orphans.py",),
    ),
    Mutation(
        "a-queued-resource-counts-as-empty-where-its-zone-does-not-answer",
        "controllers/orphans/diff.py",
        "manned = unknown or any(member in sightings for member in members)",
        "manned = any(member in sightings for member in members)",
        ("controllers/orphans/test_orphans.py",),
    ),
    Mutation(
        "a-look-without-some-zones-counts-as-a-look-at-the-project",
        "controllers/inventory/inventory.py",
        "if is_written and not inventory.unreachable:",
        "if is_written:",
        ("controllers/test_losses.py",),
    ),
    Mutation(
        "a-zone-that-gave-no-answer-about-its-operations-is-not-asked-again",
        "controllers/inventory/interruptions.py",
        "return not unanswered",
        "return bool(answered) or not unanswered",
        ("controllers/inventory/test_interruptions.py",),
    ),
)

_API = (
    Mutation(
        "the-password-of-a-browser-changes-what-is-below-v1",
        "api/http/auth.py",
        '(_is_api(scope) and scope.get("method") not in _READING)',
        '(_is_api(scope) and scope.get("method") == "POST")',
        ("api/http/test_auth.py",),
    ),
)

_CLI = (
    Mutation(
        "the-token-is-sent-over-plain-http-although-that-is-switched-off",
        "cli/terminal/trust.py",
        'os.environ.get(PLAIN_HTTP, "").lower() not in ("1", "true"):',
        "not os.environ.get(PLAIN_HTTP):",
        ("cli/terminal/test_trust.py",),
    ),
    Mutation(
        "wait-goes-on-after-failed",
        "cli/nodes/wait.py",
        "return WaitResult.MISSED if state in ENDED else WaitResult.OPEN",
        "return WaitResult.MISSED if state == Goal.DELETED else WaitResult.OPEN",
        ("cli/nodes/test_wait.py",),
    ),
)

_DAEMON = (
    Mutation(
        "a-first-look-without-an-answer-is-never-over",
        "daemon/first_looks.py",
        "if now - self._since.setdefault(lease, now) < self._seconds:",
        "if now - self._since.get(lease, now) < self._seconds:",
        ("daemon/test_daemon.py",),
    ),
    Mutation(
        "the-seconds-of-a-lease-begin-with-the-answer-of-the-database",
        "daemon/leaseholder.py",
        "self._set_lease(project, lease, started + LEASE_SECONDS)",
        "self._set_lease(project, lease, self._clock.monotonic() + LEASE_SECONDS)",
        ("daemon/test_daemon.py",),
    ),
    Mutation(
        "a-turn-of-an-earlier-lease-runs-under-the-present-one",
        "daemon/daemon.py",
        "if lease not in self._leases.list_held():",
        "if lease.project not in {held.project for held in self._leases.list_held()}:",
        ("daemon/test_daemon.py",),
    ),
)

_ENDS = (
    Mutation(
        "no-rail-delays-the-shown-end-of-an-idle-node",
        "domain/idle/cleanup.py",
        "        turns = () if self.holds else self.waiting\n",
        "        return ExpectedEnd(due_at)\n        turns = () if self.holds else self.waiting\n",
        ("dashboard/pages/test_end_times.py",),
    ),
    Mutation(
        "a-pause-is-shown-with-the-next-check-only",
        "domain/idle/cleanup.py",
        "            holds=(paused, *self._other_holds),\n",
        "",
        ("dashboard/pages/test_end_times.py",),
    ),
    Mutation(
        "nodes-are-lost-before-a-new-daemon-has-read-anything",
        "controllers/idle/idle.py",
        "UNREAD_PERIODS = 3",
        "UNREAD_PERIODS = 0",
        ("controllers/idle/test_restarts.py",),
    ),
    Mutation(
        "a-daemon-that-never-reads-anything-loses-no-node",
        "controllers/idle/idle.py",
        "if not memory.has_read and mark - memory.began_at < UNREAD_PERIODS * self._times.period:",
        "if not memory.has_read:",
        ("controllers/idle/test_restarts.py",),
    ),
    Mutation(
        "a-verdict-of-before-a-restart-counts-as-work-now",
        "controllers/idle/idle.py",
        "Level.ACTIVE and assessed.watched.judged_at == now:",
        "Level.ACTIVE:",
        ("controllers/idle/test_restarts.py",),
    ),
    Mutation(
        "what-reports-show-is-taken-for-a-missing-read",
        "domain/idle/assess.py",
        "Level.UNKNOWN and not assessed.verdict.is_seen",
        "Level.UNKNOWN",
        ("controllers/idle/test_restarts.py",),
    ),
    Mutation(
        "a-reservation-in-full-use-counts-as-unused",
        "application/health.py",
        "if total.used.get(usage.node_id, 0) < usage.chips:",
        "if total.used.get(usage.node_id, 0) <= usage.chips:",
        ("controllers/test_reservations.py",),
    ),
    Mutation(
        "a-dry-run-estimates-one-slice-of-several",
        "cli/nodes/dry_run.py",
        '"regions", "slices"),',
        '"regions"),',
        ("cli/nodes/test_dry_run.py",),
    ),
    Mutation(
        "an-estimate-of-slices-is-of-one",
        "api/costs/estimates.py",
        'hardware = {*HardwareRequest.model_fields, "slices"}',
        "hardware = {*HardwareRequest.model_fields}",
        ("api/costs/test_estimates.py",),
    ),
    Mutation(
        "lines-beyond-the-limit-of-the-agenda-are-not-counted",
        "domain/attention/agenda.py",
        "        max(0, len(following) - limit),\n",
        "        0,\n",
        ("dashboard/pages/test_attention.py", "domain/attention/test_agenda.py"),
    ),
    Mutation(
        "an-active-node-is-held-because-the-cleanup-is-paused",
        "cli/nodes/top.py",
        '(is_due and set(end["held_by"]) <= _RAILS)',
        '(set(end["held_by"]) <= _RAILS)',
        ("cli/nodes/test_top.py",),
    ),
    Mutation(
        "exceeded-budgets-do-not-come-first",
        "dashboard/pages/costs/budget_lines.py",
        "            budget.id not in exceeded,\n",
        "",
        ("dashboard/pages/costs/test_budgets.py",),
    ),
)

MUTATIONS = (*_DOMAIN, *_STORE, *_APPLICATION, *_CONTROLLERS, *_API, *_CLI, *_DAEMON, *_ENDS)
