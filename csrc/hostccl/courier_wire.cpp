#include "hostccl/courier_wire.h"

namespace hostccl {
namespace {

std::string differs(const char* what, uint64_t got, const std::string& expected) {
  return std::string(what) + " of " + std::to_string(got) + " where " + expected + " was expected";
}

std::string check_tail(const char* what, uint64_t tail, uint64_t before, uint64_t most) {
  if (tail >= before && tail <= most) return "";
  return differs(what, tail, std::to_string(before) + " to " + std::to_string(most));
}

}  // namespace

std::string check_state(const StateWire& state, Presence before) {
  const auto least = static_cast<uint32_t>(before) + 1, most = static_cast<uint32_t>(Presence::kClosed);
  if (state.presence >= least && state.presence <= most) return "";
  return differs("a presence", state.presence, std::to_string(least) + " to " + std::to_string(most));
}

std::string check_tails(const TailsWire& tails, const TailsWire& before, const TailsWire& most) {
  for (std::string wrong : {check_tail("a staged tail", tails.staged, before.staged, most.staged),
                            check_tail("an eager tail", tails.eager, before.eager, most.eager),
                            check_tail("a bulk tail", tails.bulk, before.bulk, most.bulk),
                            check_tail("a count of envelopes", tails.envelopes, before.envelopes, most.envelopes),
                            check_tail("a shared tail", tails.shared, before.shared, most.shared)}) {
    if (!wrong.empty()) return wrong;
  }
  return "";
}

std::string check_header(const HeaderSlot& slot, const FlatPiece* flat) {
  const auto place = static_cast<PayloadPlace>(slot.header.payload);
  switch (place) {
    case PayloadPlace::kNone:
    case PayloadPlace::kInline:
      return flat == nullptr ? "" : "a header that does not belong to the flat bytes before it";
    case PayloadPlace::kFlat:
      if (flat == nullptr) return "a header whose flat bytes have not come";
      if (slot.flat_offset != flat->offset)
        return differs("a flat offset", slot.flat_offset, std::to_string(flat->offset));
      if (slot.flat_bytes != flat->bytes) return differs("flat bytes", slot.flat_bytes, std::to_string(flat->bytes));
      return "";
  }
  return differs("a place of the payload", slot.header.payload, "0 to 2");
}

}  // namespace hostccl
