// What HTML cannot do. Each page works without it.

// Instants in the reader's own time zone, written as the server writes them, also in what htmx puts into the page.
const local = new Intl.DateTimeFormat("en-GB", {
  year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", timeZoneName: "short",
});
const zone = local.resolvedOptions().timeZone;
document.cookie = `zone=${zone}; path=/; max-age=31536000; samesite=lax${location.protocol === "https:" ? "; secure" : ""}`;
const shown = document.documentElement.dataset.shownIn === zone; // the server has shown them so
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
for (const form of document.querySelectorAll("[data-keep-place]")) form.action += location.hash; // a redirect keeps it
const improve = () => {
  for (const time of shown ? [] : document.querySelectorAll("time[datetime]")) {
    const text = local.format(new Date(time.dateTime));
    if (time.textContent !== text) {
      time.title = time.textContent;
      time.textContent = text;
    }
  }
  for (const each of document.querySelectorAll("[data-zone]")) {
    if (each.value === undefined) each.textContent = zone;
    else each.value = zone;
  }
  for (const id of document.querySelectorAll("[data-copy]:not(:has(+ .copy))")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy second small";
    button.textContent = "Copy";
    button.ariaLabel = `Copy ${id.dataset.copy}`;
    button.dataset.copies = id.dataset.copy;
    id.after(button);
  }
};

// A live part reads itself again after so many seconds, unless the page is hidden.
let timer, read = Date.now();
const plan = () => {
  clearTimeout(timer);
  const live = document.querySelector("[data-live]");
  if (live && !document.hidden) {
    const wait = Math.max(0, read + live.dataset.live * 1000 - Date.now());
    timer = setTimeout(() => live.dispatchEvent(new Event("refresh")), wait);
  }
};
let fresh = new Date();
const late = document.getElementById("late");
document.addEventListener("htmx:after:swap", (event) => {
  const { response, target } = event.detail.ctx;
  if (response?.status >= 400) return; // nothing was swapped
  improve();
  const dialog = document.getElementById("dialog");
  if (target?.id !== "dialog-content") {
    fresh = new Date();
    if (late) late.textContent = "";
  } else if (!dialog.open) {
    dialog.setAttribute("aria-labelledby", "dialog-title");
    dialog.showModal();
  }
});
const failed = (event) => {
  const source = event.detail.ctx?.sourceElement;
  const again = source?.matches("[data-live], [hx-trigger^=every]") ? "; trying again" : "";
  if (source?.matches("[data-dialog]")) location.href = source.href;
  else if (late && event.detail.ctx?.response?.status === 401) late.textContent = "Your session has ended. What you send next leads to the sign-in and back; nothing is lost.";
  else if (late) late.textContent = `As of ${clock.format(fresh)}. The service does not answer${again}.`;
};
document.addEventListener("htmx:response:error", failed);
document.addEventListener("htmx:error", failed);
document.addEventListener("htmx:finally:request", (event) => {
  if (event.target.closest?.("[data-live]")) read = Date.now();
  plan();
});
document.addEventListener("visibilitychange", plan);

// A dialog closes by its Cancel link; a form is sent once; an id is copied.
document.addEventListener("click", (event) => {
  const close = event.target.closest("dialog [data-close]");
  if (close) {
    event.preventDefault();
    close.closest("dialog").close();
  }
  const copy = event.target.closest("[data-copies]");
  if (copy) navigator.clipboard?.writeText(copy.dataset.copies).then(() => {
    copy.textContent = "Copied";
    copy.ariaLabel = `Copied ${copy.dataset.copies}`;
  });
});
document.addEventListener("submit", (event) => {
  if (event.target.method === "post") setTimeout(() => event.submitter?.setAttribute("disabled", ""));
});
addEventListener("pageshow", () => document.querySelectorAll("button[disabled]").forEach((each) => each.removeAttribute("disabled")));

// Shortcuts of one character, which the reader can switch off.
const keys = document.getElementById("keys"), used = document.getElementById("shortcuts");
if (keys) {
  let went = 0;
  used.checked = localStorage.getItem("shortcuts") !== "off";
  used.addEventListener("change", () => localStorage.setItem("shortcuts", used.checked ? "on" : "off"));
  document.addEventListener("keydown", (event) => {
    if (!used.checked || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, dialog, [contenteditable]")) return;
    const follows = Date.now() - went < 1500;
    went = event.key === "g" ? Date.now() : 0;
    const link = follows && document.querySelector(`nav [data-key="${CSS.escape(event.key)}"]`);
    const filter = event.key === "/" && document.querySelector("[data-filter]");
    if (link) link.click();
    else if (filter) {
      event.preventDefault();
      filter.focus();
    } else if (event.key === "?") keys.showPopover();
  });
}
document.querySelector("form[data-go-on]")?.requestSubmit();
for (const each of document.querySelectorAll("[data-without-scripts]")) each.hidden = true;
improve();
plan();
