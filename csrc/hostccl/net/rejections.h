// What became of those who came to the endpoint in vain: for each reason how many, and the last of them in words, for a log.
// Any thread. Must not know: who decides.
#pragma once

#include <array>
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
    std::lock_guard lock(mutex_);
    Kind& kind = kinds_[static_cast<size_t>(reason)];
    ++kind.count;
    kind.last = "a connection from " + who.to_text() + " was closed: " + why;
  }
  uint64_t count(Rejection reason) const {
    std::lock_guard lock(mutex_);
    return kinds_[static_cast<size_t>(reason)].count;
  }
  // Empty: none was closed for this reason.
  std::string last(Rejection reason) const {
    std::lock_guard lock(mutex_);
    return kinds_[static_cast<size_t>(reason)].last;
  }

 private:
  struct Kind {
    uint64_t count = 0;
    std::string last;
  };
  mutable std::mutex mutex_;
  std::array<Kind, kRejections> kinds_;  // GUARDED_BY(mutex_)
};

}  // namespace hostccl::net
