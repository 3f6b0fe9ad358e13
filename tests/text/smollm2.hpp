#pragma once
// The real model's file and tokenizer, opened once for all tests, and what the reference implementations gave for it.
#include <fstream>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

#include "models/text/gguf.hpp"

namespace millrace {

inline const std::string smollm2_path = MILLRACE_SOURCE_DIR "/third_party/SmolLM2-135M-Instruct.Q4_1.gguf";

inline const GgufFile& smollm2_file() {
  static const GgufFile file = [] {
    auto opened = GgufFile::open(smollm2_path);
    if (!opened) throw std::runtime_error(opened.error().message + " (./deploy/setup fetches it)");
    return std::move(*opened);
  }();
  return file;
}

inline const Tokenizer& smollm2() {
  static const Tokenizer tokenizer = Tokenizer::make(read_vocabulary(smollm2_file()).value()).value();
  return tokenizer;
}

inline const nlohmann::json& golden() {
  static const nlohmann::json json = nlohmann::json::parse(std::ifstream(MILLRACE_TEST_DATA "/smollm2.json"));
  return json;
}

}  // namespace millrace
