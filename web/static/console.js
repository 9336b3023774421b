// The console's only script. Every page works without it; it adds live updates and conveniences.
"use strict";
(() => {
  // The server escapes fragments; HTML text becomes elements only here.
  const policy = window.trustedTypes
    ? window.trustedTypes.createPolicy("olm", { createHTML: (text) => text })
    : { createHTML: (text) => text };
  const parse = (text) => {
    const template = document.createElement("template");
    template.innerHTML = policy.createHTML(text);
    return template.content;
  };

  // Updates the children of `old` to match those of `fresh`. Elements are reused to preserve focus, selection, open
  // sections and the scroll position; an element with an id is only reused for the same id.
  const own = new Set(["open", "title", "aria-busy", "data-sent"]);
  const merge = (old, fresh) => {
    let at = old.firstChild;
    for (const node of [...fresh.childNodes]) {
      let twin = at;
      if (node.id) {
        twin = [...old.children].find((e) => e.id === node.id && e.nodeName === node.nodeName);
        if (twin && twin !== at) old.insertBefore(twin, at);
      } else if (twin && (twin.id || twin.nodeName !== node.nodeName)) {
        twin = undefined;
      }
      if (!twin) {
        old.insertBefore(node, at);
        continue;
      }
      at = twin.nextSibling;
      if (twin.isEqualNode(node)) continue;
      if (node.nodeType !== Node.ELEMENT_NODE) {
        twin.nodeValue = node.nodeValue;
        continue;
      }
      for (const { name } of [...twin.attributes]) if (!node.hasAttribute(name) && !own.has(name)) twin.removeAttribute(name);
      for (const { name, value } of node.attributes) if (name !== "open" && twin.getAttribute(name) !== value) twin.setAttribute(name, value);
      merge(twin, node);
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  };

  // Live pages: <main data-live="URL">.
  const live = document.querySelector("[data-live]");
  if (live) {
    const chip = document.getElementById("live");
    let last = new Date();
    const show = (state, text) => {
      if (!chip || chip.dataset.state === state) return;
      chip.hidden = false;
      chip.dataset.state = state;
      chip.firstElementChild.textContent = text;
    };
    let source;
    let refused = false;
    const connect = () => {
      source?.close();
      if (refused) return;
      source = new EventSource(live.dataset.live);
      source.onopen = () => show("live", "Live");
      source.addEventListener("step", (event) => {
        last = new Date();
        show("live", "Live");
        const data = JSON.parse(event.data);
        merge(live, parse(data.html));
        localTimes();
        offerCopy();
        const list = live.querySelector("[data-installed]");
        for (const name of list ? ["installed", "updates"] : []) {
          const count = document.getElementById(`nav-${name}`);
          if (count) { count.textContent = list.dataset[name]; count.hidden = name === "updates" && list.dataset[name] === "0"; }
        }
        if (data.title) document.title = data.title;
        const status = document.getElementById("announce");
        if (status && data.announcement && status.textContent !== data.announcement) status.textContent = data.announcement;
      });
      source.addEventListener("refused", (event) => {
        refused = true;
        source.close();
        show("stale", event.data || "Not live");
      });
      source.onerror = () => {
        const at = last.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
        show("stale", source.readyState === EventSource.CLOSED ? `Stale since ${at}` : "Reconnecting");
      };
    };
    connect();
    // A browser has six connections for all its tabs: hidden tabs close theirs.
    document.addEventListener("visibilitychange", () => (document.hidden ? source.close() : connect()));
    window.addEventListener("pagehide", () => source.close());
    window.addEventListener("pageshow", (event) => event.persisted && connect());
  }

  // A page with pending content reloads, except while the user types.
  const again = document.querySelector("[data-reload]");
  if (again) {
    setInterval(() => {
      if (!document.hidden && !document.activeElement?.matches("input")) location.reload();
    }, Number(again.dataset.reload) * 1000);
  }

  // Filters apply when a choice changes: <form data-auto>.
  for (const form of document.querySelectorAll("form[data-auto]")) {
    form.addEventListener("change", (event) => event.target.matches("select") && form.requestSubmit());
  }

  // Hide buttons that are only needed without JavaScript.
  for (const button of document.querySelectorAll("[data-no-script]")) button.hidden = true;

  // A form with a preview that follows its fields: <form data-preview="#id">.
  for (const form of document.querySelectorAll("form[data-preview]")) {
    const id = form.dataset.preview;
    let timer, controller;
    const refresh = async () => {
      controller?.abort();
      controller = new AbortController();
      const fields = new URLSearchParams(new FormData(form));
      const target = document.getElementById(id);
      target?.setAttribute("aria-busy", "true");
      try {
        const preview = form.querySelector("[formaction]").formAction;
        const answer = await fetch(preview, { method: "POST", body: fields, headers: { Accept: "text/html" }, signal: controller.signal });
        const page = parse(await answer.text());
        for (const part of [id, "versions", "channel-note", "version-note", "ranges", "namespace-field", "watch", "config", "updates", "cli", "install-why", "install-action"]) {
          const fresh = page.querySelector(`#${part}`);
          const old = document.getElementById(part);
          if (!fresh || !old) continue;
          merge(old, fresh);
          for (const choice of old.querySelectorAll("input[type=radio]")) choice.checked = choice.defaultChecked;
        }
        target?.removeAttribute("aria-busy");
        // URLs are logged: without the token and the configuration.
        for (const field of form.querySelectorAll("[name=_csrf], #config [name]")) fields.delete(field.name);
        history.replaceState(null, "", `${form.getAttribute("action")}?${fields}`);
      } catch (error) {
        if (error.name !== "AbortError") target?.removeAttribute("aria-busy");
      }
    };
    const later = (wait) => { clearTimeout(timer); timer = setTimeout(refresh, wait); };
    form.addEventListener("change", () => later(0));
    form.addEventListener("input", (event) => event.target.matches("input[type=text]") && later(350));
  }

  // Search as you type: cards without a match are hidden; Enter searches on the server, which ranks and searches more fields.
  const search = document.querySelector("input[data-filter]");
  if (search) {
    const cards = [...document.querySelectorAll("[data-words]")];
    const none = document.getElementById("no-match");
    search.addEventListener("input", () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const card of cards) {
        const hit = words.every((word) => card.dataset.words.includes(word));
        card.hidden = !hit;
        shown += hit;
      }
      if (none) none.hidden = shown > 0 || !words.length;
    });
  }

  // `g` and the key of a section open it; `?` shows the shortcuts of /help/keyboard.
  let prefix = -Infinity;
  const shortcut = (event) => {
    const follows = event.timeStamp - prefix < 1500;
    prefix = event.key === "g" ? event.timeStamp : -Infinity;
    const link = follows && [...document.querySelectorAll(".nav [data-key]")].find((a) => a.dataset.key === event.key);
    if (link) { event.preventDefault(); link.click(); }
    if (event.key === "?") { event.preventDefault(); help().catch(() => {}); }
  };
  const help = async () => {
    const open = document.querySelector("dialog.help-dialog");
    if (open) { if (!open.open) open.showModal(); return; }
    const answer = await fetch("/help/keyboard", { headers: { Accept: "text/html" } });
    const keys = parse(await answer.text()).getElementById("keyboard");
    if (!answer.ok || !keys || document.querySelector("dialog.help-dialog")) return;
    const dialog = document.createElement("dialog");
    dialog.className = "help-dialog";
    dialog.setAttribute("aria-labelledby", "keyboard-h");
    dialog.append(keys, parse('<form method="dialog"><button class="button" autofocus>Close</button></form>'));
    document.body.append(dialog);
    dialog.showModal();
  };

  const menus = "details:is(.menu, .popup)[open]";
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input, textarea, select, [contenteditable]");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      const box = document.querySelector("input[type=search]");
      if (box) { event.preventDefault(); box.focus(); box.select(); }
    }
    if (!typing && !event.ctrlKey && !event.metaKey && !event.altKey) shortcut(event);
    if (event.key === "Escape") {
      for (const menu of document.querySelectorAll(menus)) {
        menu.removeAttribute("open");
        menu.querySelector("summary").focus();
      }
    }
  });
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll(menus)) {
      if (!menu.contains(event.target)) menu.removeAttribute("open");
    }
    const copy = event.target.closest("[data-copy]");
    if (copy) {
      const source = document.getElementById(copy.dataset.copy);
      navigator.clipboard?.writeText(source.value ?? source.textContent).then(() => {
        const before = copy.textContent;
        copy.textContent = "Copied";
        setTimeout(() => { copy.textContent = before; }, 1500);
      });
    }
  });
  function offerCopy() {
    for (const button of document.querySelectorAll("[data-copy]")) button.hidden = !navigator.clipboard;
  }
  offerCopy();

  // A narrow window shows only some tabs: the current one is among them.
  document.querySelector("nav.tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

  // Prevent a second submission of a form.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "post") return;
    if (form.dataset.sent) { event.preventDefault(); return; }
    form.dataset.sent = "1";
    event.submitter?.setAttribute("aria-busy", "true");
  });
  window.addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
    for (const button of document.querySelectorAll("button[aria-busy]")) button.removeAttribute("aria-busy");
  });

  // Tab inserts an indent in YAML; Escape, then Tab leaves the field.
  for (const area of document.querySelectorAll("textarea.yaml")) {
    let leave = false;
    area.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { leave = true; return; }
      if (event.key === "Tab" && !event.shiftKey && !leave) {
        event.preventDefault();
        area.setRangeText("  ", area.selectionStart, area.selectionEnd, "end");
      }
      leave = false;
    });
  }

  // Absolute times in the local time zone, as a tooltip.
  function localTimes() {
    for (const time of document.querySelectorAll("time[datetime]")) {
      const text = new Date(time.dateTime).toLocaleString();
      if (time.title !== text) time.title = text;
    }
  }
  localTimes();
  document.querySelector("[data-error-summary]")?.focus();
})();
