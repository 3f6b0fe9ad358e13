#include "models/text/detokenizer.hpp"

#include <random>

#include <doctest/doctest.h>

#include "models/text/byte_spelling.hpp"
#include "models/text/utf8.hpp"
#include "tests/text/smollm2.hpp"

namespace millrace {
namespace {

// All bytes as tokens 0 to 255, then 256 = E2 82 and 257 = F0 9F, 258 = a control token.
Tokenizer tokenizer_with_parts() {
  Vocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte) vocabulary.tokens.push_back(spell_byte(static_cast<unsigned char>(byte)));
  vocabulary.tokens.push_back(spell_byte(0xE2) + spell_byte(0x82));
  vocabulary.tokens.push_back(spell_byte(0xF0) + spell_byte(0x9F));
  vocabulary.tokens.push_back("<end>");
  vocabulary.control = {258};
  vocabulary.pre_tokenizer = "bytes";
  return Tokenizer::make(vocabulary).value();
}

// Fault B06.
TEST_CASE("a character comes out in one piece, when it is complete") {
  const Tokenizer tokenizer = tokenizer_with_parts();
  Detokenizer detokenizer(tokenizer);
  CHECK(detokenizer.push(256) == "");
  CHECK(detokenizer.push(0xAC) == "€");
  CHECK(detokenizer.push(257) == "");
  CHECK(detokenizer.push(0x8C) == "");
  CHECK(detokenizer.push(0xB6) == "🌶");
  CHECK(detokenizer.push('a') == "a");
  CHECK(detokenizer.push(258) == "");  // a control token
  CHECK(detokenizer.finish() == "");
}

TEST_CASE("an unfinished character is one U+FFFD, at the end only") {
  const Tokenizer tokenizer = tokenizer_with_parts();
  Detokenizer detokenizer(tokenizer);
  CHECK(detokenizer.push('a') == "a");
  CHECK(detokenizer.push(0xE2) == "");
  CHECK(detokenizer.finish() == "\uFFFD");
  CHECK(detokenizer.finish() == "");
  CHECK(detokenizer.push(257) == "");
  CHECK(detokenizer.push(0x8C) == "");
  CHECK(detokenizer.finish() == "\uFFFD");
}

TEST_CASE("what cannot become a character does not wait") {
  const Tokenizer tokenizer = tokenizer_with_parts();
  Detokenizer detokenizer(tokenizer);
  CHECK(detokenizer.push(0xFF) == "\uFFFD");
  CHECK(detokenizer.push(256) == "");
  CHECK(detokenizer.push('a') == "\uFFFDa");
  CHECK(detokenizer.push(0xAC) == "\uFFFD");
}

TEST_CASE("the stream put together is the text of all tokens at once") {
  std::mt19937 random(17);
  for (int i = 0; i < 500; ++i) {
    Tokens tokens(random() % 30);
    for (TokenId& token : tokens) token = static_cast<TokenId>(random() % (i % 2 ? 300 : smollm2().size()));
    Detokenizer detokenizer(smollm2());
    std::string stream;
    for (const TokenId token : tokens) stream += detokenizer.push(token);
    stream += detokenizer.finish();
    CHECK(stream == smollm2().decode(tokens));
    CHECK(to_valid_utf8(stream) == stream);
  }
}

TEST_CASE("broken UTF-8 is replaced as the Unicode standard recommends") {
  // Unicode 15, tables 3-8 to 3-11
  CHECK(to_valid_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41") ==
        "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41");
  CHECK(to_valid_utf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41") ==
        "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41");
  CHECK(to_valid_utf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42") == "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41\uFFFD\uFFFD\x42");
  CHECK(to_valid_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41") == "\uFFFD\uFFFD\uFFFD\uFFFD\x41");
  CHECK(to_valid_utf8("aé€🌶\U0010FFFF") == "aé€🌶\U0010FFFF");
}

TEST_CASE("names in errors are short and valid") {
  CHECK(in_quotes("w\xFF") == "\"w\uFFFD\"");
  CHECK(in_quotes(std::string(65, 'a')) == '"' + std::string(64, 'a') + "...\"");
}

}  // namespace
}  // namespace millrace
