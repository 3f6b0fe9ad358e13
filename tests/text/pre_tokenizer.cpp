#include "models/text/pre_tokenizer.hpp"

#include <random>

#include <doctest/doctest.h>

namespace millrace {
namespace {

using Pieces = std::vector<std::string_view>;

Pieces smollm(std::string_view text) {
  static const PreTokenizer pre_tokenizer = PreTokenizer::make("smollm").value();
  return pre_tokenizer.split(text);
}

TEST_CASE("words take the space before them, digits stand alone") {
  CHECK(smollm("The sea, at 12") == Pieces{"The", " sea", ",", " at", " ", "1", "2"});
  CHECK(smollm("x1½Ⅷ٣") == Pieces{"x", "1", "½", "Ⅷ", "٣"});
  CHECK(smollm("naïve мир") == Pieces{"naïve", " мир"});
  CHECK(smollm("don't THEY'RE 'tis") == Pieces{"don", "'t", " THEY", "'", "RE", " '", "tis"});
  CHECK(smollm("a+=b !!") == Pieces{"a", "+=", "b", " !!"});
}

TEST_CASE("the last white space goes with the word, but not with a digit") {
  CHECK(smollm("a   b") == Pieces{"a", "  ", " b"});
  CHECK(smollm("a   5") == Pieces{"a", "   ", "5"});
  CHECK(smollm("a\n\nb") == Pieces{"a", "\n", "\n", "b"});
  CHECK(smollm("a  ") == Pieces{"a", "  "});
  CHECK(smollm("\u00A0\u2003\u0085b") == Pieces{"\u00A0\u2003", "\u0085", "b"});
  CHECK(smollm("a\u180Eb") == Pieces{"a", "\u180E", "b"});  // not white space since Unicode 6.3
  CHECK(smollm(" \u180E") == Pieces{" \u180E"});
}

TEST_CASE("bytes that are no UTF-8 are pieces, too") {
  CHECK(smollm("a\xFF\xFE b") == Pieces{"a", "\xFF\xFE", " b"});
  CHECK(smollm("\xE2\x82") == Pieces{"\xE2\x82"});
  CHECK(smollm("") == Pieces{});
}

TEST_CASE("the pieces put together are the text") {
  std::mt19937 random(5);
  for (int i = 0; i < 3000; ++i) {
    std::string text(random() % 30, '\0');
    for (char& byte : text)
      byte = random() % 2 ? "a 5\n'\xC3\xA9\xE2\x82\xAC"[random() % 10] : static_cast<char>(random());
    std::string together;
    for (const std::string_view piece : smollm(text)) {
      CHECK_FALSE(piece.empty());
      together += piece;
    }
    CHECK(together == text);
  }
}

TEST_CASE("bytes: no cuts") { CHECK(PreTokenizer::make("bytes")->split("a b 12") == Pieces{"a b 12"}); }

}  // namespace
}  // namespace millrace
