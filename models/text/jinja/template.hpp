#pragma once
// A chat template: the part of Jinja that model families use, with the meaning that transformers gives it (sandboxed,
// trim_blocks, lstrip_blocks, break and continue, the generation tag). What is not part of it is refused when the
// template is read, with its line; it is never guessed.
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "config/expected.hpp"
#include "models/text/jinja/value.hpp"

namespace millrace::jinja {

struct Block;

class Template {
 public:
  static expected<Template> parse(std::string_view source);
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();

  // Errors: raise_exception, and what Python would refuse, with the line. May be called from several threads.
  expected<MarkedText> render(std::vector<std::pair<std::string, Value>> variables) const;

 private:
  explicit Template(std::unique_ptr<const Block> body);
  std::unique_ptr<const Block> body_;
};

}  // namespace millrace::jinja
