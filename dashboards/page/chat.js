// The chat box: every answer can be judged, and a judged answer is trained on.
import { call } from "./api.js";
import { act } from "./page.js";

const $ = (id) => document.getElementById(id);
const messages = [];

function bubble(className, text) {
  const made = Object.assign(document.createElement("p"), { className, textContent: text });
  $("talk").append(made);
  $("talk").scrollTop = $("talk").scrollHeight;
  return made;
}

function thumbs(interaction, version) {
  const row = Object.assign(document.createElement("div"), { className: "thumbs" });
  const buttons = [["👍", 1, "Good answer"], ["👎", -1, "Bad answer"]].map(([sign, score, label]) => {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: sign });
    button.setAttribute("aria-label", label);
    button.setAttribute("aria-pressed", "false");
    button.addEventListener("click", () => act(button, async () => {
      await call("POST", "v1/feedback", { interaction_id: interaction, reward: score, final: true });
      button.setAttribute("aria-pressed", "true");
      for (const other of buttons) other.hidden = other !== button;
    }, "Thank you: the policy will learn from it."));
    return button;
  });
  row.append(...(interaction ? buttons : []), `policy ${version ?? "?"}`);
  $("talk").append(row);
  $("talk").scrollTop = $("talk").scrollHeight;
}

export function startChat() {
  $("chat").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = $("message").value.trim() || $("message").placeholder;
    $("message").value = "";
    bubble("mine", text);
    messages.push({ role: "user", content: text });
    const waiting = bubble("theirs", "…");
    act(event.submitter ?? $("chat").querySelector("button"), async () => {
      try {
        const { body, headers } = await call("POST", "v1/chat/completions", { messages, max_tokens: 64 });
        const answer = body.choices[0].message.content;
        waiting.textContent = answer || "(nothing)";
        messages.push({ role: "assistant", content: answer });
        thumbs(headers.get("x-millrace-interaction-id"), headers.get("x-millrace-policy-version"));
      } catch (error) {
        waiting.remove();
        messages.pop();
        throw error;
      } finally {
        $("message").focus();
      }
    });
  });
}
