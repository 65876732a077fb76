// Everything here makes a page nicer that works without it.
import { keepTimes } from "./times.js";
import { offerThemes } from "./theme.js";
import { follow } from "./live.js";

keepTimes(document);
offerThemes();
follow();

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const field = document.getElementById("find");
  if (!field) return;
  event.preventDefault();
  field.focus();
  field.select();
});
