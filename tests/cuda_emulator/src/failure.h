// How emulator code refuses: it throws Failure, and api/entry.h turns that into the return value of the exported function.
// Thrown by a piece of device work, it becomes the sticky error of its device.
#pragma once

#include <string>
#include <utility>

#include "abi.h"

namespace cuemu {

using cuda_abi::Error;

struct Failure {
  Error code;
  std::string text;  // why, where the code alone does not say it
};

[[noreturn]] inline void fail(Error code, std::string text = {}) { throw Failure{code, std::move(text)}; }

inline void require(bool holds, Error otherwise) {
  if (!holds) fail(otherwise);
}

}  // namespace cuemu
