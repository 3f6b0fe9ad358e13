#include "models/text/tokenizer_json.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "models/text/json_file.hpp"
#include "models/text/pre_tokenizer.hpp"
#include "models/text/utf8.hpp"

namespace millrace {
namespace {

using nlohmann::json;

constexpr std::int64_t most_tokens = 10'000'000;

const json nothing;

const json& at(const json& object, const char* key) {
  if (!object.is_object()) return nothing;
  const auto found = object.find(key);
  return found == object.end() ? nothing : *found;
}

// The text under `key`; empty if there is none.
std::string text_at(const json& object, const char* key) {
  const json& value = at(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

bool is_set(const json& object, const char* key) {
  const json& value = at(object, key);
  return value.is_boolean() && value.get<bool>();
}

tl::unexpected<Error> not_supported(const std::string& field, const json& value) {
  return fail(field + ": " + value.dump(-1, ' ', true).substr(0, 200) + " is not supported");
}

// A list of steps, or one step that stands alone.
std::vector<json> steps_of(const json& step, const char* key) {
  if (step.is_null()) return {};
  if (text_at(step, "type") != "Sequence") return {step};
  const json& inner = at(step, key);
  return inner.is_array() ? inner.get<std::vector<json>>() : std::vector<json>{step};
}

class Reader {
 public:
  explicit Reader(const json& file) : file_(file) {}

  expected<Vocabulary> run() {
    for (auto part :
         {&Reader::read_model, &Reader::read_added, &Reader::read_normalizer, &Reader::read_pre_tokenizer}) {
      if (auto done = (this->*part)(); !done) return tl::unexpected(done.error());
    }
    return std::move(vocabulary_);
  }

 private:
  expected<void> place(const std::string& spelling, const json& id, const std::string& field) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() >= most_tokens) {
      return fail(field + ": the id of " + in_quotes(spelling) + " must be from 0 to " +
                  std::to_string(most_tokens - 1));
    }
    const auto place = id.get<std::size_t>();
    if (place >= vocabulary_.tokens.size()) vocabulary_.tokens.resize(place + 1);
    std::string& token = vocabulary_.tokens[place];
    if (!token.empty() && token != spelling) {
      return fail(field + ": the id " + std::to_string(place) + " belongs to both " + in_quotes(token) + " and " +
                  in_quotes(spelling));
    }
    token = spelling;
    return {};
  }

  expected<void> read_model() {
    const json& model = at(file_, "model");
    if (!model.is_object()) return fail("model: an object is expected");
    // Files of old had no type; those have merges.
    if (const std::string type = text_at(model, "type"); type != "BPE" && !(type.empty() && model.contains("merges"))) {
      return not_supported("model.type", at(model, "type"));
    }
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (!text_at(model, key).empty()) return not_supported(std::string("model.") + key, at(model, key));
    }
    if (const json& dropout = at(model, "dropout"); dropout.is_number() && dropout.get<double>() != 0) {
      return not_supported("model.dropout", dropout);
    }
    if (is_set(model, "byte_fallback")) vocabulary_.spelling = Spelling::characters;
    vocabulary_.whole_pieces = is_set(model, "ignore_merges");
    if (vocabulary_.whole_pieces && is_set(model, "byte_fallback")) {
      return fail("model.ignore_merges: is not supported together with byte_fallback");
    }
    const json& tokens = at(model, "vocab");
    if (!tokens.is_object()) return fail("model.vocab: an object is expected");
    for (const auto& [spelling, id] : tokens.items()) {
      if (auto done = place(spelling, id, "model.vocab"); !done) return done;
    }
    return read_merges(at(model, "merges"));
  }

  expected<void> read_merges(const json& merges) {
    if (!merges.is_array()) return fail("model.merges: an array is expected");
    for (std::size_t i = 0; i < merges.size(); ++i) {
      const json& merge = merges[i];
      if (merge.is_string()) {
        vocabulary_.merges.push_back(merge.get<std::string>());
        continue;
      }
      const bool is_pair = merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
      if (!is_pair || merge[0].get<std::string>().find(' ') != std::string::npos) {
        return fail("model.merges[" + std::to_string(i) + "]: two tokens without a space in the first are expected");
      }
      vocabulary_.merges.push_back(merge[0].get<std::string>() + ' ' + merge[1].get<std::string>());
    }
    return {};
  }

  expected<void> read_added() {
    const json& added = at(file_, "added_tokens");
    if (added.is_null()) return {};
    if (!added.is_array()) return fail("added_tokens: an array is expected");
    for (std::size_t i = 0; i < added.size(); ++i) {
      const std::string field = "added_tokens[" + std::to_string(i) + ']';
      const std::string spelling = text_at(added[i], "content");
      if (spelling.empty()) return fail(field + ".content: a text is expected");
      if (is_set(added[i], "single_word")) return not_supported(field + ".single_word", at(added[i], "single_word"));
      if (auto done = place(spelling, at(added[i], "id"), field); !done) return done;
      const auto token = at(added[i], "id").get<TokenId>();
      (is_set(added[i], "special") ? vocabulary_.control : vocabulary_.added).push_back(token);
      if (is_set(added[i], "lstrip")) vocabulary_.eats_space_before.push_back(token);
      if (is_set(added[i], "rstrip")) vocabulary_.eats_space_after.push_back(token);
      // Matched in the normalised text: with NFC it makes no difference for ASCII.
      const bool is_ascii = std::ranges::all_of(spelling, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
      if (is_set(added[i], "normalized"))
        needs_plain_text_ = needs_plain_text_ || !is_ascii || spelling.find(' ') != std::string::npos;
      if (is_set(added[i], "normalized")) any_normalised_ = true;
    }
    return {};
  }

  expected<void> read_normalizer() {
    for (const json& step : steps_of(at(file_, "normalizer"), "normalizers")) {
      const std::string type = text_at(step, "type");
      if (type == "NFC" && vocabulary_.spelling == Spelling::bytes && !needs_plain_text_) {
        vocabulary_.compose = true;
      } else if (type == "Prepend" && text_at(step, "prepend") == "\u2581" && is_sentence_piece()) {
        vocabulary_.leading_space = LeadingSpace::always;
      } else if (type == "Replace" && at(step, "pattern") == json{{"String", " "}} &&
                 text_at(step, "content") == "\u2581" && is_sentence_piece()) {
        spaces_replaced_ = true;
      } else {
        return not_supported("normalizer", step);
      }
    }
    return {};
  }

  bool is_sentence_piece() const { return vocabulary_.spelling == Spelling::characters && !any_normalised_; }

  expected<void> read_pre_tokenizer() {
    for (const json& step : steps_of(at(file_, "pre_tokenizer"), "pretokenizers")) {
      const std::string type = text_at(step, "type");
      const bool is_bytes = vocabulary_.spelling == Spelling::bytes;
      if (type == "ByteLevel" && is_bytes && !has_byte_level_ && !is_set(step, "add_prefix_space")) {
        has_byte_level_ = true;
        if (!step.contains("use_regex") || is_set(step, "use_regex")) vocabulary_.patterns.emplace_back(gpt2_pattern);
      } else if (type == "Split" && is_bytes && !has_byte_level_ && text_at(step, "behavior") == "Isolated" &&
                 !is_set(step, "invert") && at(at(step, "pattern"), "Regex").is_string()) {
        vocabulary_.patterns.push_back(at(at(step, "pattern"), "Regex").get<std::string>());
      } else if (type == "Digits" && is_bytes && !has_byte_level_) {
        vocabulary_.patterns.emplace_back(is_set(step, "individual_digits") ? R"(\p{N})" : R"(\p{N}+)");
      } else if (type == "Metaspace" && !is_bytes && text_at(step, "replacement") == "\u2581" &&
                 at(step, "split") == json(false) && is_sentence_piece() && !spaces_replaced_) {
        const std::string scheme = text_at(step, "prepend_scheme");
        spaces_replaced_ = true;
        if (scheme == "first")
          vocabulary_.leading_space = LeadingSpace::at_start;
        else if (scheme == "always")
          vocabulary_.leading_space = LeadingSpace::at_parts;
        else if (scheme != "never")
          return not_supported("pre_tokenizer.prepend_scheme", at(step, "prepend_scheme"));
      } else {
        return not_supported("pre_tokenizer", step);
      }
    }
    if (vocabulary_.spelling == Spelling::bytes && !has_byte_level_) return fail("pre_tokenizer: ByteLevel is missing");
    if (vocabulary_.spelling == Spelling::characters && !spaces_replaced_) {
      return fail("normalizer: with byte_fallback, spaces must be replaced by U+2581");
    }
    return {};
  }

  const json& file_;
  Vocabulary vocabulary_;
  bool needs_plain_text_ = false, any_normalised_ = false, has_byte_level_ = false, spaces_replaced_ = false;
};

expected<TokenId> id_of(const Vocabulary& vocabulary, const std::string& spelling) {
  for (const auto* list : {&vocabulary.control, &vocabulary.added}) {
    for (const TokenId token : *list) {
      if (vocabulary.tokens[static_cast<std::size_t>(token)] == spelling) return token;
    }
  }
  const auto found = std::ranges::find(vocabulary.tokens, spelling);
  if (spelling.empty() || found == vocabulary.tokens.end()) return fail(in_quotes(spelling) + " is no token");
  return static_cast<TokenId>(found - vocabulary.tokens.begin());
}

// "<s>", {"content": "<s>"} or null.
expected<TokenId> token_at(const Vocabulary& vocabulary, const json& config, const char* key) {
  const json& value = at(config, key);
  if (value.is_null()) return TokenId{-1};
  auto token = id_of(vocabulary, value.is_string() ? value.get<std::string>() : text_at(value, "content"));
  if (!token) return fail(std::string(key) + ": " + token.error().message);
  return token;
}

// One id or a list of them.
expected<void> add_stops(const json& ids, std::vector<TokenId>& stops) {
  if (ids.is_null()) return {};
  for (const json& id : ids.is_array() ? ids : json::array({ids})) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() >= most_tokens) {
      return fail("eos_token_id: " + id.dump(-1, ' ', true).substr(0, 60) + " is no token");
    }
    const auto stop = id.get<TokenId>();
    if (std::ranges::find(stops, stop) == stops.end()) stops.push_back(stop);
  }
  return {};
}

// A text, or a list of named ones of which "default" is meant.
expected<std::string> template_at(const json& config) {
  const json& value = at(config, "chat_template");
  if (value.is_null()) return std::string();
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) {
    for (const json& entry : value) {
      if (text_at(entry, "name") == "default") return text_at(entry, "template");
    }
  }
  return fail("chat_template: a text is expected, or a list with one named \"default\"");
}

}  // namespace

expected<Vocabulary> read_tokenizer_json(const json& file) { return Reader(file).run(); }

expected<Vocabulary> read_tokenizer_folder(const std::string& folder) {
  const auto tokenizer = read_json_object(folder + "/tokenizer.json");
  if (!tokenizer) return tl::unexpected(tokenizer.error());
  auto vocabulary = read_tokenizer_json(*tokenizer);
  if (!vocabulary) return fail(folder + "/tokenizer.json: " + vocabulary.error().message);

  const std::string config_path = folder + "/tokenizer_config.json";
  const auto config = read_json_object(config_path);
  if (!config) return tl::unexpected(config.error());
  const auto refuse = [&](const Error& error) { return fail(config_path + ": " + error.message); };
  const auto bos = token_at(*vocabulary, *config, "bos_token"), eos = token_at(*vocabulary, *config, "eos_token");
  if (!bos) return refuse(bos.error());
  if (!eos) return refuse(eos.error());
  vocabulary->bos = *bos;
  vocabulary->eos = *eos;
  auto chat_template = template_at(*config);
  if (!chat_template) return refuse(chat_template.error());
  vocabulary->chat_template = std::move(*chat_template);
  if (auto text = read_file(folder + "/chat_template.jinja")) vocabulary->chat_template = std::move(*text);

  const std::string generation_path = folder + "/generation_config.json";
  if (read_file(generation_path)) {
    const auto generation = read_json_object(generation_path);
    if (!generation) return tl::unexpected(generation.error());
    if (auto done = add_stops(at(*generation, "eos_token_id"), vocabulary->stops); !done) {
      return fail(generation_path + ": " + done.error().message);
    }
  }
  if (vocabulary->eos < 0 && !vocabulary->stops.empty()) vocabulary->eos = vocabulary->stops.front();
  return vocabulary;
}

}  // namespace millrace
