// The confusion matrix of a classifier: how often it took which class for which, as text, CSV and picture.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/data/dataset.h"

namespace muster::cli {

class Confusion {
 public:
  explicit Confusion(std::size_t classes) : classes_(classes), counts_(classes * classes) {}
  // An answer beyond the classes (a model may have more scores) counts for none. REQUIRES: a target below classes().
  void add(std::int64_t target, std::int64_t answer);

  std::size_t classes() const { return classes_; }
  std::uint64_t count(std::size_t target, std::size_t answer) const { return counts_[target * classes_ + answer]; }
  std::uint64_t of_target(std::size_t target) const;
  std::uint64_t of_answer(std::size_t answer) const;
  double recall(std::size_t target) const;     // of the samples of a class, the part that was found; 0 of none
  double precision(std::size_t answer) const;  // of the answers of a class, the part that was right; 0 of none

 private:
  std::size_t classes_;
  std::vector<std::uint64_t> counts_;
};

// The name of a class, or its number where nobody named it.
std::string class_name(const data::SampleSpec& spec, std::int64_t label);

// A line for each class: samples, precision, recall, what it is most often taken for. At most 50 classes.
std::string confusion_text(const Confusion& confusion, const data::SampleSpec& spec);
// A row for each class, a column for each answer.
std::string confusion_csv(const Confusion& confusion, const data::SampleSpec& spec);
// An SVG picture; of more than 100 classes without names and counts.
std::string confusion_svg(const Confusion& confusion, const data::SampleSpec& spec);

}  // namespace muster::cli
