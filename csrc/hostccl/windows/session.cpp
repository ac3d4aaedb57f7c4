#include "hostccl/windows/session.h"

#include <algorithm>
#include <cstring>

#include "hostccl/kernels/kernels.h"

namespace hostccl {
namespace {

constexpr size_t kRequestCosts = 4 << 10;  // of a burst, whatever it moves

}  // namespace

WindowSession::WindowSession(WindowHost& host, int client, net::Descriptor socket, const net::Address& at)
    : host_(host),
      client_(client),
      socket_(std::move(socket)),
      at_(at),
      segment_(net::segment_bytes(socket_)),
      locks_(client, host.is_dead),
      in_(std::make_unique_for_overwrite<std::byte[]>(kBuffer)),
      out_(std::make_unique_for_overwrite<std::byte[]>(kBuffer)) {}

WindowSession::Outcome WindowSession::advance() {
  budget_ = kBurst;
  is_drained_ = false;
  if (is_blocked_ && !send()) {
    if (locks_are_due_) locks_.expire(pycomms::now_ns());
    return is_blocked_ ? Outcome::kIdle : Outcome::kEnded;
  }
  for (;;) {
    if (locks_are_due_) answer_locks();
    switch (step()) {
      case Step::kMoved:
        if (budget_ > 0) break;
        seal_part(WindowVerdict::kPart);
        return send() ? Outcome::kMore : is_blocked_ ? Outcome::kIdle : Outcome::kEnded;
      case Step::kNeedsInput:
        if (is_drained_ || budget_ == 0) {
          if (!send()) return is_blocked_ ? Outcome::kIdle : Outcome::kEnded;
          return is_drained_ ? Outcome::kIdle : Outcome::kMore;
        }
        if (!receive()) return Outcome::kEnded;
        break;
      case Step::kNeedsOutput:
        if (!send()) return is_blocked_ ? Outcome::kIdle : Outcome::kEnded;
        if (budget_ == 0) return Outcome::kMore;
        break;
      case Step::kEnded:
        return Outcome::kEnded;
    }
  }
}

WindowSession::Step WindowSession::step() {
  switch (state_) {
    case State::kHeader:
      return read_header();
    case State::kPieces:
      return read_pieces();
    case State::kPut:
      return put_some();
    case State::kGet:
      return get_some();
    case State::kUpdate:
      return update_some();
    case State::kCompareSwap:
      return compare_and_swap();
    case State::kDropping:
      return drop_some();
  }
  return Step::kEnded;
}

WindowSession::Step WindowSession::talk_nonsense(const std::string& what) {
  nonsense_ = "rank " + std::to_string(client_) + " sent " + what;
  return Step::kEnded;
}

WindowSession::Step WindowSession::read_header() {
  if (input_bytes() < sizeof(WindowRequest)) return Step::kNeedsInput;
  if (room() < kReserve) return Step::kNeedsOutput;
  const uint64_t before = request_.number;
  std::memcpy(&request_, input(), sizeof(request_));
  if (const std::string wrong = check_request(request_, before); !wrong.empty()) return talk_nonsense(wrong);
  consume(sizeof(request_));
  spend(kRequestCosts);
  state_ = State::kPieces;
  return Step::kMoved;
}

WindowSession::Step WindowSession::read_pieces() {
  const size_t bytes = request_.pieces * sizeof(WindowPiece);
  if (input_bytes() < bytes) return Step::kNeedsInput;
  pieces_.resize(request_.pieces);
  if (bytes > 0) std::memcpy(pieces_.data(), input(), bytes);
  consume(bytes);
  uint64_t total = 0;
  if (const std::string wrong = check_request_pieces(request_, pieces_, total); !wrong.empty()) {
    return talk_nonsense(wrong);
  }
  piece_ = 0;
  piece_done_ = 0;
  payload_left_ = request_.bytes;
  return begin();
}

// What the frame alone does not tell.
std::string WindowSession::check_request_here() const {
  const auto kind = static_cast<WindowRequestKind>(request_.kind);
  const auto type = static_cast<DataType>(request_.type);
  std::string wrong = check_pieces(*memory_, pieces_);
  if (kind == WindowRequestKind::kUpdate || kind == WindowRequestKind::kCompareSwap) {
    const auto op = kind == WindowRequestKind::kUpdate ? static_cast<WindowOp>(request_.op) : WindowOp::kReplace;
    if (wrong.empty()) wrong = check_update(type, op);
    if (wrong.empty()) wrong = check_elements(*memory_, pieces_, type);
  }
  if (kind == WindowRequestKind::kSignal || (request_.flags & kSignals) != 0) {
    const WindowSignal signal{request_.slot, static_cast<SignalChange>(request_.change), request_.value};
    if (wrong.empty()) wrong = check_signal(*memory_, signal);
  }
  return wrong;
}

WindowSession::Step WindowSession::begin() {
  const auto kind = static_cast<WindowRequestKind>(request_.kind);
  if (kind == WindowRequestKind::kFlush) return end_request(WindowVerdict::kDone);
  if (kind == WindowRequestKind::kForgo) {
    host_.unlocks += locks_.forgo(static_cast<uint64_t>(request_.value));
    return end_request(WindowVerdict::kDone);
  }
  memory_ = host_.find(request_.window);
  if (is_gone()) return end_request(WindowVerdict::kClosed);
  if (const std::string wrong = check_request_here(); !wrong.empty()) {
    return end_request(WindowVerdict::kRefused, wrong);
  }
  switch (kind) {
    case WindowRequestKind::kPut:
      state_ = State::kPut;
      return Step::kMoved;
    case WindowRequestKind::kGet:
      state_ = State::kGet;
      return Step::kMoved;
    case WindowRequestKind::kUpdate:
      state_ = State::kUpdate;
      return Step::kMoved;
    case WindowRequestKind::kCompareSwap:
      state_ = State::kCompareSwap;
      return Step::kMoved;
    case WindowRequestKind::kSignal:
      signal(*memory_, client_, {request_.slot, static_cast<SignalChange>(request_.change), request_.value});
      return end_request(WindowVerdict::kDone);
    case WindowRequestKind::kLock: {
      const auto reply = locks_.lock(request_, memory_);
      if (reply) return end_request(reply->verdict, reply->words, reply->rank);
      memory_.reset();
      state_ = State::kHeader;
      return Step::kMoved;
    }
    case WindowRequestKind::kUnlock: {
      const WindowReply reply = locks_.unlock(request_, *memory_);
      ++host_.unlocks;
      return end_request(reply.verdict, reply.words);
    }
    case WindowRequestKind::kTell:
      tell_state(*memory_, client_, static_cast<WindowState>(request_.value));
      return end_request(WindowVerdict::kDone);
    case WindowRequestKind::kFlush:
    case WindowRequestKind::kForgo:
      break;
  }
  return Step::kEnded;
}

// The verdict is the last answer to the request; what is left of its payload is dropped. There is room for it: what needs more
// of the buffer leaves that.
WindowSession::Step WindowSession::end_request(WindowVerdict verdict, const std::string& words, int rank) {
  const bool is_last_part = part_ != kNone && verdict == WindowVerdict::kDone;
  if (part_ != kNone) seal_part(is_last_part ? WindowVerdict::kDone : WindowVerdict::kPart);
  if (!is_last_part && (verdict != WindowVerdict::kDone || (request_.flags & kAnswered) != 0)) {
    append_reply({request_, verdict, rank, words});
  }
  memory_.reset();
  state_ = payload_left_ > 0 ? State::kDropping : State::kHeader;
  return Step::kMoved;
}

// False: all are done.
bool WindowSession::next_piece() {
  while (piece_ < pieces_.size() && piece_done_ == pieces_[piece_].bytes) {
    ++piece_;
    piece_done_ = 0;
  }
  return piece_ < pieces_.size();
}

WindowPiece WindowSession::rest_of_piece(uint64_t most) const {
  const WindowPiece& piece = pieces_[piece_];
  return {piece.offset + piece_done_, std::min(piece.bytes - piece_done_, most)};
}

WindowSession::Step WindowSession::put_some() {
  if (is_gone()) return end_request(WindowVerdict::kClosed);
  if (!next_piece()) {
    if ((request_.flags & kSignals) != 0) {
      signal(*memory_, client_, {request_.slot, static_cast<SignalChange>(request_.change), request_.value});
    }
    return end_request(WindowVerdict::kDone);
  }
  const WindowPiece part = rest_of_piece(input_bytes());
  // Small ones in one step, so that an element is never seen half written.
  if (pieces_[piece_].bytes < kDirect ? part.bytes < pieces_[piece_].bytes : part.bytes == 0) return Step::kNeedsInput;
  put_piece(*memory_, part, input());
  consume(part.bytes);
  piece_done_ += part.bytes;
  payload_left_ -= part.bytes;
  return Step::kMoved;
}

WindowSession::Step WindowSession::get_some() {
  if (is_gone()) return end_request(WindowVerdict::kClosed);
  if (!next_piece()) return end_request(WindowVerdict::kDone);
  if (pieces_[piece_].bytes >= kDirect) {
    seal_part(WindowVerdict::kPart);
    if (room() < sizeof(WindowAnswer) + kReserve) return Step::kNeedsOutput;
    const WindowPiece part = rest_of_piece(kPartBytes);
    append_answer(make_answer(request_, WindowVerdict::kPart, part.bytes));
    direct_ = memory_->data + part.offset;
    direct_bytes_ = part.bytes;
    piece_done_ += part.bytes;
    return Step::kNeedsOutput;
  }
  const WindowPiece part = rest_of_piece(kDirect);
  if (room() < sizeof(WindowAnswer) + part.bytes + kReserve) {
    seal_part(WindowVerdict::kPart);
    return Step::kNeedsOutput;
  }
  open_part();
  get_piece(*memory_, part, out_.get() + out_end_);
  out_end_ += part.bytes;
  piece_done_ += part.bytes;
  return Step::kMoved;
}

WindowSession::Step WindowSession::update_some() {
  if (is_gone()) return end_request(WindowVerdict::kClosed);
  if (!next_piece()) return end_request(WindowVerdict::kDone);
  const auto type = static_cast<DataType>(request_.type);
  const auto op = static_cast<WindowOp>(request_.op);
  const uint64_t element = element_size(type);
  const bool has_operands = op != WindowOp::kFetch;
  const bool is_wanted = (request_.flags & kAnswered) != 0;

  uint64_t most = kBuffer;
  if (has_operands && (most = input_bytes()) < element) {
    seal_part(WindowVerdict::kPart);
    return Step::kNeedsInput;
  }
  if (is_wanted) {
    const uint64_t taken = sizeof(WindowAnswer) + kReserve;
    if (room() < taken + element) {
      seal_part(WindowVerdict::kPart);
      return Step::kNeedsOutput;
    }
    most = std::min<uint64_t>(most, room() - taken);
    open_part();
  }
  const WindowPiece part = rest_of_piece(most / element * element);
  update_piece(*memory_, part, type, op, has_operands ? input() : nullptr, is_wanted ? out_.get() + out_end_ : nullptr);
  if (is_wanted) out_end_ += part.bytes;
  piece_done_ += part.bytes;
  spend(part.bytes);
  if (!has_operands) return Step::kMoved;
  consume(part.bytes);
  payload_left_ -= part.bytes;
  return Step::kMoved;
}

WindowSession::Step WindowSession::compare_and_swap() {
  if (is_gone()) return end_request(WindowVerdict::kClosed);
  const size_t element = pieces_[0].bytes;
  if (input_bytes() < 2 * element) return Step::kNeedsInput;
  std::byte old[sizeof(uint64_t)];
  compare_swap(*memory_, pieces_[0].offset, static_cast<DataType>(request_.type), input(), input() + element, old);
  consume(2 * element);
  payload_left_ = 0;
  open_part();
  append(old, element);
  return end_request(WindowVerdict::kDone);
}

WindowSession::Step WindowSession::drop_some() {
  if (payload_left_ == 0) {
    state_ = State::kHeader;
    return Step::kMoved;
  }
  const size_t part = std::min<uint64_t>(payload_left_, input_bytes());
  if (part == 0) return Step::kNeedsInput;
  consume(part);
  payload_left_ -= part;
  return Step::kMoved;
}

void WindowSession::answer_locks() {
  // In between two answers only; and what is under way keeps the room that it counts on.
  if (part_ != kNone || direct_bytes_ > 0) return;
  const int64_t now = pycomms::now_ns();
  for (size_t next = 0; room() >= 2 * kReserve;) {
    const auto reply = locks_.look(now, next);
    if (!reply) {
      locks_are_due_ = false;
      return;
    }
    append_reply(*reply);
  }
}

void WindowSession::release(uint32_t window) {
  locks_.release(window);
  locks_are_due_ |= locks_.is_waiting();
  if (memory_ == nullptr || request_.window != window) return;
  memory_.reset();
  direct_ = nullptr;
}

}  // namespace hostccl
