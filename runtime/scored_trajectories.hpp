#pragma once
// Scored trajectories for pre-training a value model, one after another: out of a service's ledger, or out of a file of
// JSON lines. Only the one being read is in memory.
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "config/expected.hpp"
#include "models/sequence.hpp"
#include "models/text/tokenizer.hpp"
#include "runtime/ledger.hpp"

namespace millrace {

class ScoredTrajectories {
 public:
  // `path`: a state directory, the ledger.sqlite in one, or a file whose name ends in .jsonl. A line holds tokens with
  // their mask, {"tokens": [...], "mask": [...], "reward": 0.5} or "rewards": [...] a token, or text,
  // {"messages": [{"role": "user", "content": "..."}], "answer": "...", "reward": 0.5}. Errors: nothing there.
  static expected<ScoredTrajectories> open(const std::string& path, const Tokenizer& tokenizer);

  // The next one; nothing at the end. Errors name the line, or the trajectory, and what is wrong with it.
  expected<std::optional<Sequence>> next();
  std::size_t read() const { return read_; }    // so far
  std::size_t total() const { return total_; }  // in all

 private:
  explicit ScoredTrajectories(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}
  expected<Sequence> parse(const std::string& line) const;

  const Tokenizer* tokenizer_;
  std::string path_;
  std::optional<Ledger> ledger_;
  std::vector<TrajectoryId> ids_;
  std::ifstream lines_;
  std::size_t read_ = 0, total_ = 0;
};

}  // namespace millrace
