#include "runtime/live/redaction.hpp"

#include <fstream>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace millrace {
namespace {

constexpr std::string_view black = "[redacted]";

PCRE2_SPTR bytes_of(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

expected<Redaction> Redaction::read(const std::string& file) {
  Redaction redaction;
  if (file.empty()) return redaction;
  std::ifstream stream(file);
  if (!stream) return fail("live.redact_file: cannot read " + file);
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (line.empty() || line.starts_with('#')) continue;
    int error = 0;
    PCRE2_SIZE offset = 0;
    pcre2_code* code = pcre2_compile(bytes_of(line), line.size(), PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF,
                                     &error, &offset, nullptr);
    if (!code) {
      return fail(file + ":" + std::to_string(number) + ": the pattern is wrong near character " +
                  std::to_string(offset));
    }
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without JIT it matches all the same, only slower
    redaction.rules_.emplace_back(code, [](pcre2_code* made) { pcre2_code_free(made); });
  }
  return redaction;
}

bool Redaction::apply(std::string& text) const {
  bool matched = false;
  for (const auto& rule : rules_) {
    const auto* code = static_cast<const pcre2_code*>(rule.get());
    std::string out(text.size() * black.size() + black.size() + 1, '\0');  // every byte a match, and one at the end
    PCRE2_SIZE size = out.size();
    const int count =
        pcre2_substitute(code, bytes_of(text), text.size(), 0, PCRE2_SUBSTITUTE_GLOBAL, nullptr, nullptr,
                         bytes_of(black), black.size(), reinterpret_cast<PCRE2_UCHAR*>(out.data()), &size);
    if (count == 0) continue;
    matched = true;
    text = count < 0 ? std::string(black) : out.substr(0, size);
  }
  return matched;
}

void Redaction::apply(Interaction& interaction, const std::vector<Message>& said) const {
  if (rules_.empty()) return;
  bool matched = apply(interaction.task);
  if (apply(interaction.answer)) matched = true;
  for (Message message : said) {
    if (apply(message.content)) matched = true;
  }
  if (!matched) return;
  interaction.redacted = true;
  interaction.dialogue.clear();
  interaction.prompt.clear();
  interaction.sampled = {};
}

}  // namespace millrace
