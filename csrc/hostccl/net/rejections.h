// What became of those who came to the endpoint in vain: how many, by reason, and the last of them in words, for a log.
// Any thread. Must not know: who decides.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "hostccl/net/address.h"

namespace hostccl::net {

enum class Rejection : uint8_t {
  kMalformed,  // no hello of this protocol and version
  kWrongKey,
  kTimedOut,
  kEvicted,  // the oldest of too many
  kLeft,     // by itself
  kRefused,  // knows the key, and was told that it is not wanted
  kSystem,   // the operating system refused something
};
inline constexpr size_t kRejections = 7;

class Rejections {
 public:
  void note(Rejection reason, const Address& who, const std::string& why) {
    counts_[static_cast<size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
    std::lock_guard lock(mutex_);
    last_ = "a connection from " + who.to_text() + " was closed: " + why;
  }
  uint64_t count(Rejection reason) const {
    return counts_[static_cast<size_t>(reason)].load(std::memory_order_relaxed);
  }
  std::string last() const {
    std::lock_guard lock(mutex_);
    return last_;
  }

 private:
  std::array<std::atomic<uint64_t>, kRejections> counts_{};
  mutable std::mutex mutex_;
  std::string last_;  // GUARDED_BY(mutex_)
};

}  // namespace hostccl::net
