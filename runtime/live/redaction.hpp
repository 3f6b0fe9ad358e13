#pragma once
// What must not be kept of what people say: an answer whose conversation matches a rule is stored with the matches
// blacked out and without its tokens, so that it is never trained on. Its feedback is taken and ends as `invalid`.
#include <memory>
#include <string>
#include <vector>

#include "config/expected.hpp"
#include "runtime/live/interaction.hpp"

namespace millrace {

class Redaction {
 public:
  // A Perl-compatible pattern a line, # begins a comment line; no file: no rules. Errors name the line.
  static expected<Redaction> read(const std::string& file);

  // Blacks out all matches; whether there were any. A text that a rule cannot get through with is one match as a whole.
  bool apply(std::string& text) const;
  // The same for all that is kept of an answer; `said`: the conversation before it.
  void apply(Interaction& interaction, const std::vector<Message>& said) const;

 private:
  std::vector<std::shared_ptr<const void>> rules_;  // pcre2_code
};

}  // namespace millrace
