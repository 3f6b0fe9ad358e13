#include "models/text/tokenizer_json.hpp"

#include <fstream>
#include <random>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "models/text/chat.hpp"
#include "models/text/detokenizer.hpp"
#include "models/text/json_file.hpp"

namespace millrace {
namespace {

using nlohmann::json;

const Tokenizer& qwen() {
  static const Tokenizer tokenizer = [] {
    const auto file = read_json_object(MILLRACE_SOURCE_DIR "/third_party/qwen/tokenizer.json");
    if (!file) throw std::runtime_error(file.error().message + " (./deploy/setup makes it)");
    return Tokenizer::make(read_tokenizer_json(*file).value()).value();
  }();
  return tokenizer;
}

TEST_CASE("Qwen: ids equal those of Hugging Face's tokenizers, and decode to the text again") {
  const json golden = json::parse(std::ifstream(MILLRACE_TEST_DATA "/qwen_tokens.json"));
  REQUIRE(golden.size() == 26);
  for (const auto& entry : golden) {
    const auto text = entry["text"].get<std::string>();
    CAPTURE(text);
    const Tokens ids = qwen().encode_template(text);
    CHECK(ids == entry["ids"].get<Tokens>());
    std::string spelled;
    for (const TokenId token : ids) spelled += qwen().spelling_of(token);
    if (text != "e\u0301 vs \u00e9" && text.find("한국어") == std::string::npos)
      CHECK(spelled == text);  // else composed
  }
}

TEST_CASE("Qwen: users write added tokens, but no control tokens") {
  CHECK(qwen().encode("<think>") == Tokens{151646});
  CHECK(qwen().bytes_of(151646) == "<think>");
  CHECK_FALSE(qwen().is_control(151646));
  CHECK(qwen().encode("<|im_end|>").size() > 1);
  CHECK(qwen().encode_template("<|im_end|>") == Tokens{151645});
  CHECK(qwen().decode({151645, 151646, 9707}) == "<think>Hello");
}

// A tokenizer of a few letters, as byte pairs or as SentencePiece would have it.
json small() {
  json file;
  file["model"] = {{"type", "BPE"},
                   {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}, {"Ġ", 3}, {"Ġa", 4}, {"aba", 5}}},
                   {"merges", {"a b", "Ġ a"}}};
  file["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  return file;
}

json small_sentence_piece() {
  json file;
  json vocabulary = {{"a", 256}, {"b", 257}, {"▁", 258}, {"▁a", 259}, {"é", 260}, {"<s>", 261}};
  for (int byte = 0; byte < 256; ++byte) {
    std::array<char, 8> name{};
    std::snprintf(name.data(), name.size(), "<0x%02X>", byte);
    vocabulary[name.data()] = byte;
  }
  file["model"] = {{"type", "BPE"},
                   {"vocab", vocabulary},
                   {"merges", json::array({json::array({"▁", "a"})})},
                   {"byte_fallback", true}};
  file["normalizer"] = {{"type", "Sequence"},
                        {"normalizers",
                         {{{"type", "Prepend"}, {"prepend", "▁"}},
                          {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}}}};
  file["added_tokens"] = json::array({{{"id", 261}, {"content", "<s>"}, {"special", true}}});
  return file;
}

Tokenizer made(const json& file) { return Tokenizer::make(read_tokenizer_json(file).value()).value(); }

TEST_CASE("a piece that is a token stays one only where the file says so") {
  json file = small();
  CHECK(made(file).encode("aba a") == Tokens{2, 0, 4});
  file["model"]["ignore_merges"] = true;
  CHECK(made(file).encode("aba a") == Tokens{5, 4});
}

TEST_CASE("added tokens: the longest one counts, and they may swallow the space beside them") {
  json file = small();
  file["added_tokens"] = json::array({{{"id", 6}, {"content", "<x>"}, {"special", false}, {"rstrip", true}},
                                      {{"id", 7}, {"content", "<x>b"}, {"special", true}},
                                      {{"id", 8}, {"content", "<y>"}, {"special", false}, {"lstrip", true}}});
  const Tokenizer tokenizer = made(file);
  CHECK(tokenizer.encode("a<x> \n a") == Tokens{0, 6, 0});
  CHECK(tokenizer.encode("a \n<y> a") == Tokens{0, 8, 4});
  CHECK(tokenizer.encode_template("<x>ba") == Tokens{7, 0});
  CHECK(tokenizer.encode("<x>ba") == Tokens{6, 1, 0});  // the control token is not for users
}

TEST_CASE("SentencePiece: a space before each part, bytes for what has no token") {
  const Tokenizer tokenizer = made(small_sentence_piece());
  CHECK(tokenizer.encode("a b") == Tokens{259, 258, 257});
  CHECK(tokenizer.encode_template("a<s>a") == Tokens{259, 261, 259});
  CHECK(tokenizer.encode("é€") == Tokens{258, 260, 0xE2, 0x82, 0xAC});
  CHECK(tokenizer.decode({258, 260, 0xE2, 0x82, 0xAC}) == "é€");
  CHECK(tokenizer.decode({261, 259, 259}) == "a a");
  Detokenizer stream(tokenizer);
  std::string streamed;
  for (const TokenId token : {259, 0xE2, 0x82, 0xAC, 259}) streamed += stream.push(token);
  CHECK(streamed == "a€ a");
}

TEST_CASE("white space beside an added token is Rust's, without the separators that Python counts in") {
  json file = small_sentence_piece();
  file["added_tokens"][0]["lstrip"] = file["added_tokens"][0]["rstrip"] = true;
  CHECK(made(file).encode_template("a \n<s>\u3000") == Tokens{259, 261});
  CHECK(made(file).encode_template("a\x1F<s>") == Tokens{259, 0x1F, 261});
}

TEST_CASE("SentencePiece: Metaspace says where the space goes") {
  json file = small_sentence_piece();
  file.erase("normalizer");
  const auto with = [&](const char* scheme) {
    file["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", scheme}, {"split", false}};
    return made(file).encode_template("a<s>a<s> a");
  };
  CHECK(with("first") == Tokens{259, 261, 256, 261, 259});
  CHECK(with("always") == Tokens{259, 261, 259, 261, 259});
  CHECK(with("never") == Tokens{256, 261, 256, 261, 259});
}

TEST_CASE("what would give other ids is refused by the name of its field") {
  const auto error_of = [](auto&& change, json file = small()) {
    change(file);
    const auto vocabulary = read_tokenizer_json(file);
    if (!vocabulary) return vocabulary.error().message;
    const auto tokenizer = Tokenizer::make(*vocabulary);
    return tokenizer ? std::string() : tokenizer.error().message;
  };
  CHECK(error_of([](json&) {}) == "");
  CHECK(error_of([](json& f) { f["model"]["type"] = "Unigram"; }) == "model.type: \"Unigram\" is not supported");
  CHECK(error_of([](json& f) { f["model"]["vocab"] = 5; }) == "model.vocab: an object is expected");
  CHECK(error_of([](json& f) { f["model"]["vocab"]["c"] = -1; }) ==
        "model.vocab: the id of \"c\" must be from 0 to 9999999");
  CHECK(error_of([](json& f) { f["model"]["vocab"]["c"] = 1e18; }).starts_with("model.vocab: the id of \"c\""));
  CHECK(error_of([](json& f) { f["model"]["vocab"]["c"] = 0; }) ==
        "model.vocab: the id 0 belongs to both \"a\" and \"c\"");
  CHECK(error_of([](json& f) { f["model"]["merges"] = {1}; }) ==
        "model.merges[0]: two tokens without a space in the first are expected");
  CHECK(error_of([](json& f) { f["model"]["merges"] = {"b b"}; }).starts_with("merge 0 \"b b\""));
  CHECK(error_of([](json& f) { f["model"]["dropout"] = 0.1; }) == "model.dropout: 0.1 is not supported");
  CHECK(error_of([](json& f) {
          f["normalizer"] = {{"type", "Lowercase"}};
        }) == "normalizer: {\"type\":\"Lowercase\"} is not supported");
  CHECK(error_of([](json& f) { f["pre_tokenizer"]["add_prefix_space"] = true; }).starts_with("pre_tokenizer: "));
  CHECK(error_of([](json& f) { f.erase("pre_tokenizer"); }) == "pre_tokenizer: ByteLevel is missing");
  CHECK(error_of([](json& f) {
          f["added_tokens"] = {{{"id", 9}, {"content", ""}}};
        }) == "added_tokens[0].content: a text is expected");
  CHECK(error_of([](json& f) {
          f["added_tokens"] = {{{"id", 9}, {"content", "x"}, {"single_word", true}}};
        }) == "added_tokens[0].single_word: true is not supported");
  const auto pattern = [&](const char* regex) {
    return error_of([&](json& f) {
      f["pre_tokenizer"] = {{"type", "Sequence"},
                            {"pretokenizers",
                             {{{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}},
                              {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
    });
  };
  CHECK(pattern(R"(\s+|\p{L}+)") == "");
  CHECK(pattern(R"(\h)") == R"(the pattern "\h": \h is not supported)");
  CHECK(pattern(R"(\p{Han})") == R"(the pattern "\p{Han}": what is no general category after \p is not supported)");
  CHECK(pattern(R"([a&&b])").ends_with("\"&&\" inside of brackets is not supported"));
  CHECK(pattern("(a").ends_with("is wrong near character 2"));
  json bytes = small_sentence_piece();
  bytes["model"]["vocab"].erase("<0x0A>");
  CHECK(error_of([](json&) {}, bytes) == "there is no token for the byte 10");
}

// All values in it, itself included.
void collect(json& value, std::vector<json*>& all) {
  all.push_back(&value);
  if (value.is_structured()) {
    for (json& inner : value) collect(inner, all);
  }
}

TEST_CASE("whatever is changed in it, it is refused or a tokenizer that works") {
  std::mt19937 random(5);
  json split = small();
  split["pre_tokenizer"] = json::parse(R"({"type": "Sequence", "pretokenizers": [
      {"type": "Split", "pattern": {"Regex": "\\s+|\\p{L}+"}, "behavior": "Isolated", "invert": false},
      {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]})");
  split["added_tokens"] = json::array({{{"id", 6}, {"content", "<s>"}, {"special", true}, {"rstrip", true}}});
  int made_of = 0, refused = 0;
  for (const json& start : {small(), split, small_sentence_piece()}) {
    made(start);
    for (int round = 0; round < 3000; ++round) {
      json file = start;
      for (auto changes = 1 + random() % 3; changes > 0; --changes) {
        std::vector<json*> all;
        collect(file, all);
        const json others[] = {nullptr,
                               true,
                               -1,
                               0,
                               300,
                               1e18,
                               "",
                               "b",
                               "BPE",
                               json::array(),
                               "(a|",
                               json::object(),
                               *all[random() % all.size()]};
        *all[random() % all.size()] = others[random() % std::size(others)];
      }
      CAPTURE(file.dump());
      const auto vocabulary = read_tokenizer_json(file);
      const auto tokenizer = vocabulary ? Tokenizer::make(*vocabulary) : tl::unexpected(vocabulary.error());
      if (!tokenizer) {
        ++refused;
        CHECK(!tokenizer.error().message.empty());
        continue;
      }
      ++made_of;
      tokenizer->decode(tokenizer->encode_template("a b<s>é\n€ ab"));
    }
  }
  CHECK(made_of > 500);
  CHECK(refused > 500);
}

}  // namespace
}  // namespace millrace
