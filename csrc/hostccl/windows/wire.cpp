#include "hostccl/windows/wire.h"

#include "hostccl/kernels/kernels.h"
#include "hostccl/net/siphash.h"
#include "hostccl/windows/control.h"

namespace hostccl {
namespace {

constexpr uint32_t kRequestMagic = 0x71776370;
constexpr uint32_t kAnswerMagic = 0x61776370;
constexpr uint8_t kVersion = 1;

std::string differs(const char* what, uint64_t got, const std::string& expected) {
  return std::string(what) + " of " + std::to_string(got) + " where " + expected + " was expected";
}

uint8_t flags_of(WindowRequestKind kind) {
  switch (kind) {
    case WindowRequestKind::kPut:
      return kAnswered | kSignals;
    case WindowRequestKind::kLock:
    case WindowRequestKind::kUnlock:
      return kAnswered | kShared;
    case WindowRequestKind::kForgo:
      return 0;
    case WindowRequestKind::kGet:
    case WindowRequestKind::kUpdate:
    case WindowRequestKind::kCompareSwap:
    case WindowRequestKind::kSignal:
    case WindowRequestKind::kFlush:
    case WindowRequestKind::kTell:
      return kAnswered;
  }
  return 0;
}

bool needs_answer(WindowRequestKind kind) {
  return kind == WindowRequestKind::kGet || kind == WindowRequestKind::kCompareSwap ||
         kind == WindowRequestKind::kFlush || kind == WindowRequestKind::kLock || kind == WindowRequestKind::kUnlock ||
         kind == WindowRequestKind::kTell;
}

bool has_pieces(WindowRequestKind kind) {
  return kind == WindowRequestKind::kPut || kind == WindowRequestKind::kGet || kind == WindowRequestKind::kUpdate ||
         kind == WindowRequestKind::kCompareSwap;
}

bool has_payload(WindowRequestKind kind) { return has_pieces(kind) && kind != WindowRequestKind::kGet; }

bool has_type(WindowRequestKind kind) {
  return kind == WindowRequestKind::kUpdate || kind == WindowRequestKind::kCompareSwap;
}

bool has_value(WindowRequestKind kind) {
  return kind == WindowRequestKind::kLock || kind == WindowRequestKind::kForgo || kind == WindowRequestKind::kTell;
}

bool is_state(int64_t value) {
  return value >= static_cast<int64_t>(WindowState::kClosed) && value <= static_cast<int64_t>(WindowState::kMisordered);
}

}  // namespace

const char* name_of(WindowRequestKind kind) {
  switch (kind) {
    case WindowRequestKind::kPut:
      return "put";
    case WindowRequestKind::kGet:
      return "get";
    case WindowRequestKind::kUpdate:
      return "update";
    case WindowRequestKind::kCompareSwap:
      return "compare_swap";
    case WindowRequestKind::kSignal:
      return "signal";
    case WindowRequestKind::kFlush:
      return "flush";
    case WindowRequestKind::kLock:
      return "lock";
    case WindowRequestKind::kUnlock:
      return "unlock";
    case WindowRequestKind::kForgo:
      return "forgoing a lock";
    case WindowRequestKind::kTell:
      return "tell";
  }
  return "request";
}

WindowRequest make_request(WindowRequestKind kind, uint32_t window) {
  WindowRequest request{};
  request.magic = kRequestMagic;
  request.version = kVersion;
  request.kind = static_cast<uint8_t>(kind);
  request.window = window;
  return request;
}

WindowAnswer make_answer(const WindowRequest& request, WindowVerdict verdict, uint64_t bytes, int rank) {
  WindowAnswer answer{};
  answer.magic = kAnswerMagic;
  answer.version = kVersion;
  answer.verdict = static_cast<uint8_t>(verdict);
  answer.asked = (request.flags & kAnswered) != 0;
  answer.number = request.number;
  answer.bytes = bytes;
  answer.rank = rank;
  answer.window = request.window;
  return answer;
}

std::string check_request(const WindowRequest& request, uint64_t before) {
  if (request.magic != kRequestMagic) return "what is no request for windows";
  if (request.version != kVersion) return differs("a request of version", request.version, std::to_string(kVersion));
  const auto kind = static_cast<WindowRequestKind>(request.kind);
  if (kind < WindowRequestKind::kPut || kind > WindowRequestKind::kTell) {
    return differs("a kind of request", request.kind, "1 to 10");
  }
  const std::string what = std::string(" of a request (") + name_of(kind) + ")";
  const auto wrong = [&](const char* field, uint64_t got, const std::string& expected) {
    return differs((field + what).c_str(), got, expected);
  };
  if (request.number != before + 1) return wrong("the number", request.number, std::to_string(before + 1));
  if ((request.flags & ~flags_of(kind)) != 0 || (needs_answer(kind) && (request.flags & kAnswered) == 0)) {
    return wrong("flags", request.flags, std::to_string(flags_of(kind)));
  }
  if (request.pieces > (has_pieces(kind) ? kPiecesOfRequest : 0)) {
    return wrong("pieces", request.pieces, has_pieces(kind) ? "at most " + std::to_string(kPiecesOfRequest) : "none");
  }
  if (request.bytes > (has_payload(kind) ? kWindowBytes : 0)) {
    return wrong("a payload", request.bytes, has_payload(kind) ? "at most " + std::to_string(kWindowBytes) : "none");
  }
  const bool signals = kind == WindowRequestKind::kSignal || (request.flags & kSignals) != 0;
  if (!signals && (request.slot != 0 || request.change != 0)) return "a signal" + what + ", which has none";
  if (!signals && !has_value(kind) && request.value != 0) return "a value" + what + ", which has none";
  if (has_value(kind) && request.value < 0) return "a negative value" + what;
  if (kind == WindowRequestKind::kTell && !is_state(request.value)) return "an unknown state" + what;
  if (!has_type(kind) && (request.type != 0 || request.op != 0)) return "a type" + what + ", which has none";
  if (kind == WindowRequestKind::kCompareSwap && request.op != 0) return "an operation" + what + ", which has none";
  if ((kind == WindowRequestKind::kFlush || kind == WindowRequestKind::kForgo) && request.window != 0) {
    return "a window" + what + ", which is for all";
  }
  if (request.unused != 0) return wrong("an unused field", request.unused, "0");
  return {};
}

std::string check_request_pieces(const WindowRequest& request, std::span<const WindowPiece> pieces, uint64_t& total) {
  total = 0;
  for (const WindowPiece& piece : pieces) {
    if (piece.offset > kWindowBytes) return differs("an offset", piece.offset, "at most 2^48");
    if (piece.bytes > kWindowBytes - total) return differs("a piece", piece.bytes, "at most 2^48 in all");
    total += piece.bytes;
  }
  uint64_t expected = total;
  switch (static_cast<WindowRequestKind>(request.kind)) {
    case WindowRequestKind::kCompareSwap: {
      const size_t size = element_size(static_cast<DataType>(request.type));
      if (size == 0 || pieces.size() != 1 || total != size) {
        return differs("a piece of compare_swap", total, "one element");
      }
      expected = 2 * total;
      break;
    }
    case WindowRequestKind::kUpdate:
      if (static_cast<WindowOp>(request.op) == WindowOp::kFetch) expected = 0;
      break;
    case WindowRequestKind::kPut:
      break;
    case WindowRequestKind::kGet:
    case WindowRequestKind::kSignal:
    case WindowRequestKind::kFlush:
    case WindowRequestKind::kLock:
    case WindowRequestKind::kUnlock:
    case WindowRequestKind::kForgo:
    case WindowRequestKind::kTell:
      expected = 0;
      break;
  }
  if (request.bytes != expected) return differs("a payload", request.bytes, std::to_string(expected));
  return {};
}

std::string check_answer(const WindowAnswer& answer, uint64_t last) {
  if (answer.magic != kAnswerMagic) return "what is no answer of windows";
  if (answer.version != kVersion) return differs("an answer of version", answer.version, std::to_string(kVersion));
  const auto verdict = static_cast<WindowVerdict>(answer.verdict);
  if (verdict < WindowVerdict::kDone || verdict > WindowVerdict::kTimeout) {
    return differs("a verdict", answer.verdict, "1 to 5");
  }
  if (answer.number == 0 || answer.number > last) {
    return differs("an answer to request", answer.number, "1 to " + std::to_string(last));
  }
  const bool has_data = verdict == WindowVerdict::kDone || verdict == WindowVerdict::kPart;
  const uint64_t most = has_data ? kWindowBytes : verdict == WindowVerdict::kRefused ? kWindowWords : 0;
  if (answer.bytes > most) return differs("the payload of an answer", answer.bytes, "at most " + std::to_string(most));
  if (answer.rank < -1) return "a rank below -1 in an answer";
  if (answer.asked > 1 || answer.unused != 0) return "an answer with unknown flags";
  return {};
}

net::Bytes16 window_topic(const net::Bytes16& of_communicator, int rank) {
  return net::derive(of_communicator, "rank " + std::to_string(rank));
}

}  // namespace hostccl
