// A value that makes no network is refused with model, option and value; a NaN too.
#include "muster/model/zoo/requirements.h"

#include <cmath>

#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::zoo {
namespace {

TEST(Requirements, NameModelOptionAndValue) {
  EXPECT_NO_THROW(require_at_least("cnn", "height", 8, 8));
  try {
    require_at_least("cnn", "height", 7, 8);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    EXPECT_EQ(error.message(), "model cnn: height is 7; it must be at least 8");
  }
}

TEST(Requirements, DropoutIsAProbabilityBelowOne) {
  EXPECT_NO_THROW(require_dropout("mlp", 0));
  EXPECT_NO_THROW(require_dropout("mlp", 0.999));
  for (const double dropout : {-0.001, 1.0, 2.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_THROW(require_dropout("mlp", dropout), Error) << dropout;
  }
}

}  // namespace
}  // namespace muster::zoo
