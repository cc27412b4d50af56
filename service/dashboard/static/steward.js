// Keeps an open page up to date, shows times in the reader's zone, and adds keyboard shortcuts. The
// server alone computes; without this script a reload does the same.
"use strict";

// Times in the zone of the reader, where the reader chose so. The label is the offset to UTC.

const times = (() => {
  const FULL = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC/;
  const CLOCK = /^\d\d:\d\d:\d\d UTC/;
  const isLocal = document.documentElement.dataset.times === "local";
  const two = (number) => String(number).padStart(2, "0");

  const offsetOf = (then) => {
    const minutes = -then.getTimezoneOffset();
    if (minutes === 0) return "UTC";
    const away = Math.abs(minutes);
    return `UTC${minutes < 0 ? "\u2212" : "+"}${two(Math.floor(away / 60))}:${two(away % 60)}`;
  };

  const toLocal = (iso, hasDate) => {
    const then = new Date(iso);
    const date = `${then.getFullYear()}-${two(then.getMonth() + 1)}-${two(then.getDate())} `;
    const clock = [then.getHours(), then.getMinutes(), then.getSeconds()].map(two).join(":");
    return `${hasDate ? date : ""}${clock} ${offsetOf(then)}`;
  };

  const toUtc = (iso, hasDate) => `${hasDate ? `${iso.slice(0, 10)} ` : ""}${iso.slice(11, 19)} UTC`;
  const show = (iso, hasDate) => (isLocal ? toLocal : toUtc)(iso, hasDate);

  // Elements with other words, such as a day or a duration, stay as they are.
  const showAll = (root) => {
    if (!isLocal) return;
    for (const time of root.querySelectorAll("time[datetime]")) {
      const text = time.textContent;
      if (FULL.test(text) || CLOCK.test(text)) time.textContent = show(time.dateTime, FULL.test(text));
    }
  };

  // The page did not change but for the time at which it was made.
  const moveAsOf = (iso) => {
    const old = document.querySelector("#as-of time")?.dateTime;
    if (!old || !iso) return;
    for (const time of document.querySelectorAll(`time[datetime="${old}"]`)) {
      if (!time.previousSibling?.textContent.endsWith("as of ")) continue;
      time.textContent = show(iso, FULL.test(time.textContent));
      time.title = toUtc(iso, true);
      time.dateTime = iso;
    }
  };

  showAll(document);
  if (isLocal) {
    document.getElementById("zone").textContent =
      "Times with an offset, such as UTC+01:00, are yours. Days, months and all other times are UTC.";
  }
  return { show, showAll, moveAsOf, now: () => show(new Date().toISOString(), false) };
})();

// What the page shows, taken over from a newer page.

const take = (() => {
  // What the reader has opened stays open: `open` is theirs, not the server's.
  const takeAttributes = (old, fresh) => {
    for (const { name } of [...old.attributes]) {
      if (name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
  };

  const takeNode = (old, fresh) => {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeType !== Node.ELEMENT_NODE || old.nodeName !== fresh.nodeName) {
      old.replaceWith(document.importNode(fresh, true));
      return;
    }
    takeAttributes(old, fresh);
    takeChildren(old, fresh);
  };

  // Rows have ids, so that a new one above does not move the focus from one node to another.
  const takeChildren = (old, fresh) => {
    const wanted = new Set([...fresh.children].map((child) => child.id).filter(Boolean));
    for (const child of [...old.children]) {
      if (child.id && !wanted.has(child.id)) child.remove();
    }
    const known = new Map([...old.children].map((child) => [child.id, child]));
    let here = old.firstChild;
    for (const want of [...fresh.childNodes]) {
      const same = want.id ? known.get(want.id) : undefined;
      if (same && same !== here) {
        old.insertBefore(same, here);
        here = same;
      }
      const next = here ? here.nextSibling : null;
      if (!here || (!same && (want.id || here.id))) {
        old.insertBefore(document.importNode(want, true), here);
      } else {
        takeNode(here, want);
        here = next;
      }
    }
    while (here) {
      const next = here.nextSibling;
      here.remove();
      here = next;
    }
  };

  return takeNode;
})();

// Asks for the page every few seconds, less often while nothing changes, and not while it is paused.

(() => {
  const EVERY = Number(document.documentElement.dataset.every) * 1_000;
  const LONGEST = 30_000;
  const PATIENCE = 10_000;
  const connection = document.getElementById("connection");
  const pause = document.getElementById("pause");
  const isStill = document.querySelector("[data-still]") || !document.querySelector("[data-live]");
  if (!EVERY || isStill) return;
  let timer = 0;
  let wait = EVERY;
  let tag = "";
  let lines = [];
  let good = times.now();
  let isPaused = false;
  let isOver = false;

  const say = (text, isLost) => {
    if (connection.textContent !== text) connection.textContent = text;
    connection.classList.toggle("lost", isLost);
  };

  const isSelecting = () => {
    const selection = document.getSelection();
    return selection !== null && !selection.isCollapsed;
  };

  // A session that has ended cannot be renewed from here: the browser asks for the password again.
  const end = () => {
    isOver = true;
    say(`signed out, not refreshed since ${good}`, true);
    pause.textContent = "Reload";
  };

  const show = (text) => {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    times.showAll(fresh);
    for (const part of document.querySelectorAll("[data-live]")) {
      const other = fresh.getElementById(part.id);
      if (other) take(part, other);
    }
    document.title = fresh.title;
  };

  // The lines of the page. Of a page that is known, the server sends the changes: new lines, and
  // the place and the number of lines that stay.
  const readLines = async (answer, before) => {
    if (answer.status !== 226) return (await answer.text()).split("\n");
    const changes = await answer.json();
    return changes.flatMap((one) => (typeof one === "string" ? [one] : before.slice(one[0], one[0] + one[1])));
  };

  const refresh = async () => {
    if (document.hidden || isSelecting()) return;
    const before = lines; // two requests may be under way at once
    const answer = await fetch(location.href, {
      cache: "no-store",
      headers: { Accept: "text/html", "A-IM": "lines", ...(tag && { "If-None-Match": tag }) },
      signal: AbortSignal.timeout(PATIENCE),
    });
    if (answer.status === 401) {
      end();
      return;
    }
    if (!answer.ok && answer.status !== 304) throw new Error(`status ${answer.status}`);
    const isSame = answer.status === 304;
    const newer = isSame ? before : await readLines(answer, before);
    if (isPaused) return;
    if (isSame) times.moveAsOf(answer.headers.get("X-As-Of"));
    else show(newer.join("\n"));
    wait = isSame ? Math.min(wait * 1.5, Math.max(EVERY, LONGEST)) : EVERY;
    lines = newer;
    tag = answer.headers.get("ETag") ?? "";
    good = times.now();
    say("live", false);
  };

  const loop = async () => {
    clearTimeout(timer);
    if (isPaused || isOver) return;
    try {
      await refresh();
    } catch {
      wait = EVERY;
      if (!isPaused) say(`not refreshed since ${good}`, true);
    }
    clearTimeout(timer);
    timer = setTimeout(loop, wait);
  };

  pause.addEventListener("click", () => {
    if (isOver) {
      location.reload();
      return;
    }
    isPaused = !isPaused;
    pause.textContent = isPaused ? "Resume" : "Pause";
    if (isPaused) say(`paused at ${good}`, false);
    else loop();
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) loop();
  });
  window.addEventListener("offline", () => {
    if (!isPaused && !isOver) say(`not refreshed since ${good}`, true);
  });
  window.addEventListener("online", () => loop());
  pause.hidden = false;
  say("live", false);
  timer = setTimeout(loop, wait);
})();

// Keyboard shortcuts. None of them is taken while the reader types, or turned them off.

(() => {
  const FIELDS = "input, textarea, select, [contenteditable], dialog";
  const SEARCHES = ["input[type=search]", "input[name=filter]", "input[name=generation]", "input", "select"].map(
    (one) => `${one}:not([type=hidden], [type=checkbox], [type=radio], [type=date])`,
  );
  const ROWS = "tbody tr, .lines > li, .ended > li, .orphans > li, .budgets > li, .story > li, .hits > li, .ends > li";
  const main = document.getElementById("main");
  const keys = document.getElementById("keys");
  const isOn = document.documentElement.dataset.keys === "on";
  for (const part of document.querySelectorAll("[data-scripted]")) part.hidden = false;

  const seek = () => {
    const field = SEARCHES.map((one) => main.querySelector(one)).find(Boolean);
    if (!field) return;
    for (let box = field.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
    field.focus();
  };

  const step = (by) => {
    const rows = [...main.querySelectorAll(ROWS)]
      .map((row) => ({ row, link: row.querySelector("a[href], button") }))
      .filter(({ link }) => link && link.checkVisibility());
    if (rows.length === 0) return;
    const at = rows.findIndex(({ row }) => row.contains(document.activeElement));
    const next = at < 0 ? (by > 0 ? 0 : rows.length - 1) : at + by;
    rows[Math.max(0, Math.min(next, rows.length - 1))].link.focus();
  };

  const help = () => keys.showModal();
  const ACTS = { "/": seek, j: () => step(1), k: () => step(-1), "?": help };

  document.getElementById("show-keys").addEventListener("click", help);
  document.addEventListener("keydown", (event) => {
    if (!isOn || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const act = ACTS[event.key];
    if (!act || event.target.closest(FIELDS)) return;
    event.preventDefault();
    act();
  });
})();

// The arrow keys lead from one column of a chart to the next.
document.addEventListener("keydown", (event) => {
  const COLUMN = "svg[role=group] > [role=img]";
  const column = event.target instanceof Element && event.target.closest(COLUMN);
  const step = { ArrowLeft: "previousElementSibling", ArrowRight: "nextElementSibling" }[event.key];
  const next = column && step ? column[step] : null;
  if (!next || !next.matches(COLUMN)) return;
  event.preventDefault();
  next.focus();
});
