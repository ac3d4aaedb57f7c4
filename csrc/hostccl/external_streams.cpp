#include "hostccl/external_streams.h"

#include <atomic>

namespace hostccl {
namespace {

ExternalStreams storage;
std::atomic<const ExternalStreams*> current{nullptr};

}  // namespace

void set_external_streams(const ExternalStreams& streams) {
  storage = streams;
  current.store(&storage, std::memory_order_release);
}

const ExternalStreams* external_streams() { return current.load(std::memory_order_acquire); }

}  // namespace hostccl
