// hostccl's functions for ranks that meet without a unique id from anybody, and tell each other something when they have met.

#include <cstring>
#include <string>
#include <vector>

#include "hostccl/abi.h"
#include "hostccl/bootstrap.h"
#include "hostccl/residence.h"

namespace hostccl {

PYCOMMS_EXPORT Result hostcclAddress(char* text, size_t bytes) {
  if (text == nullptr) return refuse("text is null");
  auto here = residence_on_network();
  if (!here.is_ok()) return refuse(here.status().message(), nccl_abi::kSystemError);
  const std::string address = to_text(here.value());
  if (bytes <= address.size()) {
    return refuse("the text has room for " + std::to_string(bytes) + " bytes, expected " +
                  std::to_string(kAddressBytes));
  }
  std::memcpy(text, address.c_str(), address.size() + 1);
  return nccl_abi::kSuccess;
}

PYCOMMS_EXPORT Result hostcclMeetingId(const char* address, const char* secret, const char* agenda, UniqueId* id) {
  if (address == nullptr || secret == nullptr || agenda == nullptr || id == nullptr)
    return refuse("an argument is null");
  auto convener = whereabouts_of(address);
  if (!convener.is_ok()) return refuse(convener.status().message());
  *id = meeting_id(convener.value(), secret, agenda);
  return nccl_abi::kSuccess;
}

PYCOMMS_EXPORT Result hostcclConvene(const UniqueId* id, const char* const* addresses, int count, int64_t timeout_ns) {
  if (id == nullptr || addresses == nullptr) return refuse("id or addresses is null");
  std::vector<Whereabouts> members;
  for (int rank = 0; rank < count; ++rank) {
    auto member = whereabouts_of(addresses[rank]);
    if (!member.is_ok()) return refuse("of rank " + std::to_string(rank) + ": " + member.status().message());
    members.push_back(member.value());
  }
  const pycomms::Status convened = convene(*id, members, pycomms::Deadline::after(timeout_ns));
  return convened.is_ok() ? nccl_abi::kSuccess : refuse(convened.message(), nccl_abi::kSystemError);
}

PYCOMMS_EXPORT Result hostcclExchange(CommHandle comm, const void* mine, void* all, size_t bytes, int64_t timeout_ns,
                                      int* missing, int* nmissing) {
  if (mine == nullptr || all == nullptr || missing == nullptr || nmissing == nullptr)
    return refuse("an argument is null");
  if (bytes > kExchangeBytes) {
    return refuse("bytes is " + std::to_string(bytes) + ", expected at most " + std::to_string(kExchangeBytes));
  }
  *nmissing = 0;
  RETURN_IF_REFUSED(check_ready(comm));
  pycomms::GateHolder inside(comm->impl.gate());
  if (!inside) return refuse("the communicator is closed", nccl_abi::kInvalidUsage);
  static_assert(kExchangeBytes <= kReportBytes);
  Report report{};
  std::memcpy(report.data(), mine, bytes);
  const RollCallResult call = comm->impl.roll_call(RollCallKind::kExchange, report, timeout_ns);
  for (const int rank : call.missing) missing[(*nmissing)++] = rank;
  for (size_t rank = 0; rank < call.reports.size(); ++rank) {
    std::memcpy(static_cast<std::byte*>(all) + rank * bytes, call.reports[rank].data(), bytes);
  }
  return call.missing.empty() ? done(comm, call.result) : call.result;
}

}  // namespace hostccl
