#include "tests/models/learner_fixture.hpp"
#include "tests/models/reference.hpp"

namespace millrace {
namespace {

constexpr float hidden_entry = -std::numeric_limits<float>::infinity();

Sequence sequence_of(const Tokens& tokens, std::size_t first_action) {
  Sequence sequence = testing::plain_sequence(tokens);
  std::fill(sequence.mask.begin() + static_cast<std::ptrdiff_t>(first_action), sequence.mask.end(), std::uint8_t{1});
  return sequence;
}

std::vector<std::int64_t> integers(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<std::int64_t>(), tensor.const_data_ptr<std::int64_t>() + tensor.numel()};
}

TEST_CASE("a shared prefix stands once, then each sequence's rest") {
  const Pack pack = make_pack(std::vector{sequence_of({1, 2, 3, 4}, 3), sequence_of({1, 2, 9}, 2)});
  CHECK(pack.prefix == 2);
  CHECK(integers(pack.tokens) == std::vector<std::int64_t>{1, 2, 3, 4, 9});
  CHECK(integers(pack.positions) == std::vector<std::int64_t>{0, 1, 2, 3, 2});
  CHECK(pack.rows == std::vector<std::vector<std::int64_t>>{{0, 1, 2, 3}, {0, 1, 4}});
  const float o = 0, x = hidden_entry;
  const std::vector<float> mask = {
      o, x, x, x, x,  //
      o, o, x, x, x,  //
      o, o, o, x, x,  //
      o, o, o, o, x,  //
      o, o, x, x, o,  // the second sequence does not see the first one's rest
  };
  CHECK(testing::flat({mask_of(pack, at::kFloat)}) == mask);
}

TEST_CASE("a prefix never reaches an action, even where the actions are the same") {
  const Pack pack = make_pack(std::vector{sequence_of({1, 2, 3, 4}, 2), sequence_of({1, 2, 3, 4}, 3)});
  CHECK(pack.prefix == 2);
  CHECK(pack.tokens.numel() == 6);
}

TEST_CASE("sequences without anything in common stand side by side, an empty one takes no room") {
  const Pack pack = make_pack(std::vector{sequence_of({1, 2}, 1), sequence_of({}, 0), sequence_of({3}, 1)});
  CHECK(pack.prefix == 0);
  CHECK(integers(pack.positions) == std::vector<std::int64_t>{0, 1, 0});
  CHECK(pack.rows == std::vector<std::vector<std::int64_t>>{{0, 1}, {}, {2}});
}

// Rows of one sequence out of the pack's hidden states.
at::Tensor hidden_of(const Model& model, const std::vector<Sequence>& sequences, std::size_t which) {
  const Snapshot& snapshot = *model.weights;
  const Pack pack = make_pack(sequences);
  return hidden_states(snapshot.architecture, snapshot.weights, pack).index_select(0, at::tensor(pack.rows[which]));
}

TEST_CASE("B16: neighbours in a pack change nothing, whatever they hold") {
  const Model model = testing::small_model();
  const Sequence mine = sequence_of({65, 66, 67}, 1);
  const at::Tensor alone = hidden_of(model, {mine}, 0);
  const auto close = [&](const at::Tensor& packed) { return at::allclose(packed, alone, 0, 1e-5); };
  CHECK(close(hidden_of(model, {mine, sequence_of({9, 9, 9, 9, 9, 9}, 3)}, 0)));
  CHECK(close(hidden_of(model, {sequence_of({9, 9, 9, 9, 9, 9}, 3), mine}, 1)));
  CHECK(close(hidden_of(model, {sequence_of({100, 101}, 1), mine, sequence_of({7}, 1)}, 1)));
  CHECK(close(hidden_of(model, {sequence_of({65, 66, 200}, 1), mine}, 1)));  // shares its prompt
}

TEST_CASE("gradients of a pack with a shared prefix are the sum of those of its sequences") {
  const Model model = testing::small_model();
  const Architecture& architecture = model.weights->architecture;
  const std::vector<Sequence> sequences = testing::random_batch(3, 6, 5).sequences;
  const auto gradients = [&](const std::vector<std::vector<Sequence>>& packs) {
    Weights weights = model.weights->weights;
    std::vector<at::Tensor> leaves;
    for_each_tensor(weights, architecture.tied, [&](const std::string&, at::Tensor& tensor) {
      leaves.push_back(tensor = tensor.clone().requires_grad_(true));
    });
    for (const auto& members : packs) {
      const Pack pack = make_pack(members);
      const at::Tensor hidden = hidden_states(architecture, weights, pack);
      for (const auto& rows : pack.rows) hidden.index_select(0, at::tensor(rows)).pow(3).sum().backward({}, true);
    }
    std::vector<at::Tensor> result;
    for (const at::Tensor& leaf : leaves) result.push_back(leaf.grad());
    return testing::flat(result);
  };
  CHECK(make_pack(sequences).prefix == 3);
  CHECK(testing::relative_distance(gradients({sequences}),
                                   gradients({{sequences[0]}, {sequences[1]}, {sequences[2]}})) < 1e-5);
}

}  // namespace
}  // namespace millrace
