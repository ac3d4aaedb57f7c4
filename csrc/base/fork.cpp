#include "base/fork.h"

#include <pthread.h>

namespace pycomms {
namespace {

std::atomic<uint32_t> generation{0};

void in_child() { generation.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

uint32_t fork_generation() {
  static const int registered = pthread_atfork(nullptr, nullptr, in_child);
  static_cast<void>(registered);
  return generation.load(std::memory_order_relaxed);
}

}  // namespace pycomms
