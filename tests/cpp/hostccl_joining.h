// How a test brings ranks of its own process to a meeting, one by one and without waiting.
#pragma once

#include <cstdint>
#include <string>
#include <thread>

#include "base/clock.h"
#include "check.h"
#include "hostccl/hostccl.h"

namespace hostccl_test {

inline constexpr int64_t kPatience = 20 * pycomms::kSecond;

inline std::string my_address() {
  char text[hostccl::kAddressBytes];
  CHECK_EQ(hostccl::hostcclAddress(text, sizeof(text)), nccl_abi::kSuccess);
  return text;
}

inline nccl_abi::UniqueId meeting(const std::string& address, const char* secret, const char* agenda = "all of us") {
  nccl_abi::UniqueId id;
  CHECK_EQ(hostccl::hostcclMeetingId(address.c_str(), secret, agenda, &id), nccl_abi::kSuccess);
  return id;
}

inline nccl_abi::CommHandle begin_joining(const nccl_abi::UniqueId& id, int rank, int nranks,
                                          int64_t timeout = kPatience) {
  nccl_abi::Config config;
  config.blocking = 0;
  nccl_abi::CommHandle comm = nullptr;
  hostccl::hostcclSetInitTimeout(timeout);
  CHECK_EQ(nccl_abi::ncclCommInitRankConfig(&comm, nranks, id, rank, &config), nccl_abi::kInProgress);
  return comm;
}

inline nccl_abi::Result end_of(nccl_abi::CommHandle comm) {
  nccl_abi::Result state = nccl_abi::kInProgress;
  while (state == nccl_abi::kInProgress) {
    CHECK_EQ(nccl_abi::ncclCommGetAsyncError(comm, &state), nccl_abi::kSuccess);
    std::this_thread::yield();
  }
  return state;
}

}  // namespace hostccl_test
