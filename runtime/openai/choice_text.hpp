#pragma once
// The text of one answer while its tokens come: never half a character, never any of a stop text. The tokens themselves
// are not touched.
#include <optional>
#include <string>
#include <vector>

#include "models/text/detokenizer.hpp"

namespace millrace {

class ChoiceText {
 public:
  ChoiceText(const Tokenizer& tokenizer, std::vector<std::string> stop);

  std::string push(TokenId token);  // the text that may be shown with it, maybe empty
  std::string finish();             // what was held back because it might have become a stop text

  const std::optional<std::string>& stopped_by() const { return stopped_by_; }  // the stop text that was met

 private:
  std::string show(const std::string& more);

  Detokenizer detokenizer_;
  std::vector<std::string> stop_;
  std::string held_;
  std::optional<std::string> stopped_by_;
};

}  // namespace millrace
