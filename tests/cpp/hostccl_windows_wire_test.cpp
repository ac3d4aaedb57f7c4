// Requests and answers of windows as bytes: what is right passes, and each thing that is wrong is told.

#include "hostccl/windows/control.h"
#include "hostccl/windows/exchange.h"
#include "hostccl/windows/wire.h"

#include <cstring>
#include <functional>

#include "check.h"

using namespace hostccl;

namespace {

WindowRequest request_of(WindowRequestKind kind, uint8_t flags = 0) {
  WindowRequest request = make_request(kind, 0);
  request.number = 1;
  request.flags = flags;
  return request;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A change makes it wrong, in these words.
void check_wrong(WindowRequest request, const std::function<void(WindowRequest&)>& change, const char* words) {
  CHECK_EQ(check_request(request, 0), "");
  change(request);
  const std::string wrong = check_request(request, 0);
  if (!contains(wrong, words)) CHECK_FAIL("'" + wrong + "' does not say '" + words + "'");
}

}  // namespace

TEST(requests_of_all_kinds_are_right) {
  for (const auto kind : {WindowRequestKind::kPut, WindowRequestKind::kUpdate, WindowRequestKind::kSignal}) {
    CHECK_EQ(check_request(request_of(kind), 0), "");
    CHECK_EQ(check_request(request_of(kind, kAnswered), 0), "");
  }
  for (const auto kind : {WindowRequestKind::kGet, WindowRequestKind::kCompareSwap, WindowRequestKind::kFlush,
                          WindowRequestKind::kLock, WindowRequestKind::kUnlock}) {
    CHECK_EQ(check_request(request_of(kind, kAnswered), 0), "");
    CHECK(contains(check_request(request_of(kind), 0), "flags"));
  }
  CHECK_EQ(check_request(request_of(WindowRequestKind::kForgo), 0), "");
  CHECK_EQ(check_request(request_of(WindowRequestKind::kPut, kSignals), 0), "");
  CHECK_EQ(check_request(request_of(WindowRequestKind::kLock, kAnswered | kShared), 0), "");
}

TEST(what_is_wrong_with_a_request_is_told) {
  const WindowRequest put = request_of(WindowRequestKind::kPut);
  check_wrong(put, [](auto& r) { r.magic ^= 1; }, "no request");
  check_wrong(put, [](auto& r) { r.version = 7; }, "version of 7");
  check_wrong(put, [](auto& r) { r.kind = 0; }, "kind of request");
  check_wrong(put, [](auto& r) { r.kind = 11; }, "kind of request");
  check_wrong(put, [](auto& r) { r.number = 2; }, "number");
  check_wrong(put, [](auto& r) { r.flags = kShared; }, "flags");
  check_wrong(put, [](auto& r) { r.flags = 128; }, "flags");
  check_wrong(put, [](auto& r) { r.pieces = kPiecesOfRequest + 1; }, "pieces");
  check_wrong(put, [](auto& r) { r.bytes = kWindowBytes + 1; }, "payload");
  check_wrong(put, [](auto& r) { r.slot = 1; }, "signal");
  check_wrong(put, [](auto& r) { r.value = 1; }, "value");
  check_wrong(put, [](auto& r) { r.type = 1; }, "type");
  check_wrong(put, [](auto& r) { r.op = 1; }, "type");
  check_wrong(put, [](auto& r) { r.unused = 1; }, "unused");
  const WindowRequest lock = request_of(WindowRequestKind::kLock, kAnswered);
  check_wrong(lock, [](auto& r) { r.value = -1; }, "negative");
  check_wrong(lock, [](auto& r) { r.pieces = 1; }, "pieces");
  check_wrong(lock, [](auto& r) { r.bytes = 1; }, "payload");
  WindowRequest tell = request_of(WindowRequestKind::kTell, kAnswered);
  tell.value = static_cast<int64_t>(WindowState::kMisordered);
  check_wrong(tell, [](auto& r) { r.value = static_cast<int64_t>(WindowState::kOpen); }, "unknown state");
  check_wrong(tell, [](auto& r) { ++r.value; }, "unknown state");
  check_wrong(tell, [](auto& r) { r.flags = 0; }, "flags");
  check_wrong(request_of(WindowRequestKind::kFlush, kAnswered), [](auto& r) { r.window = 1; }, "for all");
  check_wrong(request_of(WindowRequestKind::kCompareSwap, kAnswered), [](auto& r) { r.op = 1; }, "operation");
}

TEST(pieces_and_payload_belong_together) {
  uint64_t total = 0;
  WindowRequest put = request_of(WindowRequestKind::kPut);
  const WindowPiece two[2] = {{8, 3}, {100, 4}};
  put.bytes = 7;
  CHECK_EQ(check_request_pieces(put, two, total), "");
  CHECK_EQ(total, 7);
  put.bytes = 8;
  CHECK(contains(check_request_pieces(put, two, total), "payload"));
  const WindowPiece far{kWindowBytes + 1, 0}, large{0, kWindowBytes + 1};
  CHECK(contains(check_request_pieces(put, std::span(&far, 1), total), "offset"));
  CHECK(contains(check_request_pieces(put, std::span(&large, 1), total), "piece"));
  const WindowPiece half[3] = {{0, kWindowBytes / 2}, {0, kWindowBytes / 2}, {0, 1}};
  CHECK(contains(check_request_pieces(put, half, total), "piece"));

  WindowRequest fetch = request_of(WindowRequestKind::kUpdate, kAnswered);
  fetch.op = static_cast<uint8_t>(WindowOp::kFetch);
  CHECK_EQ(check_request_pieces(fetch, two, total), "");
  WindowRequest swap = request_of(WindowRequestKind::kCompareSwap, kAnswered);
  swap.type = nccl_abi::kInt32;
  swap.bytes = 8;
  const WindowPiece one{0, 4};
  CHECK_EQ(check_request_pieces(swap, std::span(&one, 1), total), "");
  CHECK(contains(check_request_pieces(swap, two, total), "one element"));
  swap.type = 1000;
  CHECK(contains(check_request_pieces(swap, std::span(&one, 1), total), "one element"));
}

TEST(what_is_wrong_with_an_answer_is_told) {
  WindowRequest get = request_of(WindowRequestKind::kGet, kAnswered);
  get.number = 5;
  const WindowAnswer right = make_answer(get, WindowVerdict::kPart, 100);
  CHECK_EQ(check_answer(right, 5), "");
  CHECK(contains(check_answer(right, 4), "answer to request"));
  const auto wrong = [&](auto change) {
    WindowAnswer answer = right;
    change(answer);
    return check_answer(answer, 5);
  };
  CHECK(contains(wrong([](auto& a) { a.magic ^= 1; }), "no answer"));
  CHECK(contains(wrong([](auto& a) { a.version = 0; }), "version"));
  CHECK(contains(wrong([](auto& a) { a.verdict = 0; }), "verdict"));
  CHECK(contains(wrong([](auto& a) { a.verdict = 6; }), "verdict"));
  CHECK(contains(wrong([](auto& a) { a.number = 0; }), "answer to request"));
  CHECK(contains(wrong([](auto& a) { a.bytes = kWindowBytes + 1; }), "payload"));
  CHECK(contains(wrong([](auto& a) { a.rank = -2; }), "rank"));
  CHECK(contains(wrong([](auto& a) { a.asked = 2; }), "flags"));
  CHECK(contains(wrong([](auto& a) { a.verdict = static_cast<uint8_t>(WindowVerdict::kClosed); }), "payload"));
  CHECK(contains(wrong([](auto& a) {
                   a.verdict = static_cast<uint8_t>(WindowVerdict::kRefused);
                   a.bytes = kWindowWords + 1;
                 }),
                 "payload"));
}

// Sent in portions of any size, requests say the same.
TEST(a_call_of_many_pieces_becomes_several_requests) {
  std::vector<WindowPiece> pieces;
  std::vector<std::byte> payload;
  for (size_t i = 0; i < kPiecesOfRequest + 10; ++i) {
    pieces.push_back({i * 16, i % 5});
    payload.insert(payload.end(), i % 5, static_cast<std::byte>(i));
  }
  WindowRequest head = make_request(WindowRequestKind::kPut, 3);
  head.flags = kSignals;
  head.slot = 2;
  head.value = -7;
  for (const size_t most : {size_t{1}, size_t{57}, size_t{1} << 20}) {
    WindowRequests requests(head, pieces, payload.data(), 1, 10);
    CHECK_EQ(requests.last_number(), 11);
    std::vector<std::byte> all;
    while (!requests.is_done()) {
      WindowRequests::Parts parts;
      size_t bytes = 0;
      for (const iovec& each : requests.next(parts, most)) {
        const auto* begin = static_cast<const std::byte*>(each.iov_base);
        all.insert(all.end(), begin, begin + each.iov_len);
        bytes += each.iov_len;
      }
      CHECK(bytes > 0 && bytes <= most);
      requests.sent(bytes);
    }
    size_t at = 0, piece = 0, byte = 0;
    for (uint64_t number = 10; number <= 11; ++number) {
      WindowRequest request;
      std::memcpy(&request, all.data() + at, sizeof(request));
      at += sizeof(request);
      CHECK_EQ(check_request(request, number - 1), "");
      CHECK_EQ(request.flags, number == 11 ? kSignals : 0);
      CHECK_EQ(request.value, number == 11 ? -7 : 0);
      CHECK(std::memcmp(all.data() + at, &pieces[piece], request.pieces * sizeof(WindowPiece)) == 0);
      at += request.pieces * sizeof(WindowPiece);
      CHECK(std::memcmp(all.data() + at, payload.data() + byte, request.bytes) == 0);
      piece += request.pieces;
      at += request.bytes;
      byte += request.bytes;
    }
    CHECK_EQ(at, all.size());
    CHECK_EQ(piece, pieces.size());
  }
}

TEST(answers_fill_the_destination_in_order) {
  std::vector<WindowPiece> pieces(kPiecesOfRequest + 1, {0, 2});
  std::vector<std::byte> destination(2 * pieces.size());
  WindowAnswers answers(4, 5, pieces, destination.data());
  CHECK(answers.awaits(4) && !answers.awaits(5));
  CHECK_EQ(answers.missing(), 2 * kPiecesOfRequest);
  answers.take(10);
  CHECK(answers.destination() == destination.data() + 10);
  answers.finish({pycomms::Code::kInvalidState, "first"});
  CHECK(answers.destination() == destination.data() + 2 * kPiecesOfRequest);
  CHECK(answers.awaits(5));
  CHECK_EQ(answers.missing(), 2);
  answers.finish({pycomms::Code::kInvalidState, "second"});
  CHECK(answers.is_done());
  CHECK_EQ(answers.status().message(), "first");
  CHECK(WindowAnswers().is_done());
}

CHECK_MAIN()
