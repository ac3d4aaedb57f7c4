// Pauses in front of pieces of device work, so that a forgotten dependency shows as a wrong result: a fixed time, a random
// time, or both. The random times of a stream depend on the seed and the stream's number alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <random>

namespace cuemu {

struct Delays {
  std::chrono::microseconds fixed{0};
  std::chrono::microseconds random{0};  // at most
  uint64_t seed = 0;
};

void set_delays(const Delays& delays);  // any thread, at any time

// One for each stream, used by its thread alone.
class DelaySource {
 public:
  explicit DelaySource(uint64_t number) : number_(number) {}
  void pause();

 private:
  const uint64_t number_;
  uint64_t generation_ = 0;
  Delays delays_;
  std::mt19937_64 random_;
};

}  // namespace cuemu
