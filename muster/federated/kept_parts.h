// Which parts of the model stay at the client (federated.keep), by the names of tensors, and the numbers that a client
// has in their place.
//
// What is kept is stored as the difference from the round's model, which never changes there, because nobody sends a
// change: so a client that is new has zeros. FedBN: Li et al. 2021; heads: Arivazhagan et al. 2019. No torch here.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "muster/federated/local_training.h"

namespace muster::federated {

class KeptParts {
 public:
  KeptParts() = default;
  // `words` of federated.keep. "norm": tensors of modules with a running_mean; "head": those of the module of the last
  // parameter; else those that are called so, or so and a dot. Throws Error{kInvalidInput}: a word that fits nothing,
  // or nothing would be left to send.
  KeptParts(std::span<const std::string> words, std::span<const TensorPlace> tensors, std::size_t model_floats,
            std::size_t parameters);

  std::size_t floats() const { return floats_; }
  // The client's own numbers onto those of the round's model. REQUIRES, here and below: own.size() == floats().
  void enter(std::span<const float> own, std::span<float> model) const;
  // Nothing of these parts in what was sent: whoever sends something there would change them for all.
  void clear(std::span<float> update) const;
  // What changed of the client's own numbers goes from the update to them.
  void leave(std::span<float> update, std::span<float> own) const;

 private:
  struct Range {
    std::size_t offset = 0;
    std::size_t count = 0;
  };
  std::vector<Range> ranges_;
  std::size_t floats_ = 0;
};

}  // namespace muster::federated
