// Keeps the page as true as it was when it was made: asks for it again every few seconds and takes
// over what differs. The server alone computes; without this script a reload does the same.
"use strict";

(() => {
  const EVERY = 5_000;
  const PATIENCE = 10_000;
  const connection = document.getElementById("connection");
  if (document.querySelector("[data-still]")) return; // nothing on this page changes
  let timer = 0;
  let good = new Date();

  const say = (text, stale) => {
    if (connection.textContent !== text) connection.textContent = text;
    connection.classList.toggle("lost", stale);
  };

  // What the reader has opened stays open: `open` is theirs, not the server's.
  const takeAttributes = (old, fresh) => {
    for (const { name } of [...old.attributes]) {
      if (name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
  };

  const take = (old, fresh) => {
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
        take(here, want);
        here = next;
      }
    }
    while (here) {
      const next = here.nextSibling;
      here.remove();
      here = next;
    }
  };

  const isSelecting = () => {
    const selection = document.getSelection();
    return selection !== null && !selection.isCollapsed;
  };

  const refresh = async () => {
    if (document.hidden || isSelecting()) return;
    const answer = await fetch(location.href, {
      cache: "no-store",
      headers: { Accept: "text/html" },
      signal: AbortSignal.timeout(PATIENCE),
    });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const other = fresh.getElementById(part.id);
      if (other) take(part, other);
    }
    document.title = fresh.title;
    good = new Date();
    say("live", false);
  };

  const loop = async () => {
    clearTimeout(timer);
    try {
      await refresh();
    } catch {
      say(`not refreshed since ${good.toISOString().slice(11, 19)} UTC`, true);
    }
    clearTimeout(timer);
    timer = setTimeout(loop, EVERY);
  };

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) loop();
  });
  say("live", false);
  timer = setTimeout(loop, EVERY);
})();

// The arrow keys lead from one column of a chart to the next.
document.addEventListener("keydown", (event) => {
  const column = event.target instanceof Element && event.target.closest(".columns .day");
  const step = { ArrowLeft: "previousElementSibling", ArrowRight: "nextElementSibling" }[event.key];
  const next = column && step ? column[step] : null;
  if (!next || !next.matches(".day")) return;
  event.preventDefault();
  next.focus();
});
