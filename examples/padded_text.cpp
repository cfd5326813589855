// Sentences of different lengths: a lane's are padded to its longest, as a collate function does; rare classes are
// drawn more often. The text is made up: a sentence is about the topic whose words it has most of.
//   ./build/release/examples/padded_text [STEPS]
#include <cstdio>
#include <cstdlib>

#include "muster/muster.h"

constexpr std::int64_t kTopics = 4, kWordsOfTopic = 20, kWords = 1 + kTopics * kWordsOfTopic;  // word 0 is padding

struct Sentence {
  torch::Tensor words;
  std::int64_t topic;
};

std::vector<Sentence> make_sentences(std::int64_t count) {
  std::vector<Sentence> made;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t topic = i % 40 == 0 ? 3 : i % 3;  // the last one is rare
    const std::int64_t length = torch::randint(5, 40, {1}).item<std::int64_t>();
    const torch::Tensor own = topic * kWordsOfTopic + torch::randint(1, kWordsOfTopic + 1, {length});
    made.push_back({torch::where(torch::rand({length}) < 0.4, own, torch::randint(1, kWords, {length})), topic});
  }
  return made;
}

struct TopicNetImpl : torch::nn::Module {
  TopicNetImpl() {
    words = register_module("words", torch::nn::Embedding(torch::nn::EmbeddingOptions(kWords, 32).padding_idx(0)));
    topics = register_module("topics", torch::nn::Linear(32, kTopics));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor there = x.ne(0).to(torch::kFloat32).unsqueeze(2);
    return topics->forward((words->forward(x) * there).sum(1) / there.sum(1));
  }
  torch::nn::Embedding words{nullptr};
  torch::nn::Linear topics{nullptr};
};
TORCH_MODULE(TopicNet);

int main(int argc, char** argv) try {
  const std::uint64_t steps = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 600;
  auto worker = muster::join(argc, argv);
  torch::manual_seed(1);
  const std::vector<Sentence> train = make_sentences(4000), test = make_sentences(1000);
  TopicNet net;
  muster::SessionOptions options{.batch = 64, .lanes = 2};
  std::vector<double> weights;
  for (const Sentence& sentence : train)
    weights.push_back(sentence.topic == 3 ? 13 : 1);
  options.sampling = muster::weighted(weights, 4000, /*seed=*/1);
  auto session = muster::synchronize(worker, net, muster::Adam{.lr = 3e-3}, options);

  struct Batch {
    torch::Tensor words, topics;
  };
  const auto collate = [](const std::vector<Sentence>& all, const muster::Lane& lane) {
    std::vector<torch::Tensor> words;
    std::vector<std::int64_t> topics;
    for (const std::uint64_t id : lane.ids) {
      words.push_back(all[id].words);
      topics.push_back(all[id].topic);
    }
    return Batch{torch::nn::utils::rnn::pad_sequence(words, /*batch_first=*/true, 0), torch::tensor(topics)};
  };
  const auto numbers = muster::numbered(train.size()), test_numbers = muster::numbered(test.size());
  session.resume("padded_text");
  session.meet(numbers);
  while (session.cursor().step < steps) {
    const std::uint64_t next = std::min((session.cursor().step / 100 + 1) * 100, steps);
    session.train_until(next, numbers, [&](muster::Lane& lane) {
      const Batch batch = collate(train, lane);
      lane.backward(torch::nn::functional::cross_entropy(net->forward(batch.words), batch.topics));
    });
    const auto measured = session.measure(
        [&](muster::Lane& lane) {
          const Batch batch = collate(test, lane);
          lane.report("right", net->forward(batch.words).argmax(1).eq(batch.topics).to(torch::kFloat32).mean());
        },
        test_numbers);
    session.checkpoint("padded_text");
    if (session.members().leads())
      std::printf("step %lu: %.4f of the test sentences right\n", session.cursor().step, *measured.mean("right"));
    std::fflush(stdout);
  }
  if (session.members().leads()) std::printf("weights %s\n", session.weights_hash().c_str());
} catch (const muster::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
}
