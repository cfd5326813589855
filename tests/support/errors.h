// What a call throws: for tests of errors.
#pragma once

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::testing {

// The Error that `call` throws. That it throws none fails the test.
template <typename Call>
Error error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorKind::kInterrupted, "nothing was thrown");
}

template <typename Call>
void expect_error(ErrorKind kind, const std::string& words, const Call& call) {
  const Error error = error_of(call);
  EXPECT_EQ(error.kind(), kind) << error.what();
  EXPECT_THAT(error.what(), ::testing::HasSubstr(words));
}

}  // namespace muster::testing
