// Handles are read strictly, and put in the same order by everybody.

#include <algorithm>
#include <string>
#include <vector>

#include "check.h"
#include "nccl2/core/regroup_handle.h"

using namespace pycomms;

namespace {

std::string nonce(char digit) { return std::string(32, digit); }
std::string handle(char digit, int rank, int64_t uuid = -1) { return to_text({nonce(digit), rank, uuid, "here"}); }

std::string why(const std::string& text) {
  auto parsed = parse_handle(text);
  return parsed.is_ok() ? "" : parsed.status().message();
}

}  // namespace

TEST(a_handle_is_read_as_it_was_written) {
  for (const RegroupHandle& one :
       {RegroupHandle{nonce('a'), 0, -1, "x"}, RegroupHandle{nonce('0'), 2147483647, 0, "a-b.c"},
        RegroupHandle{fresh_nonce(), 7, INT64_MIN, "y"}, RegroupHandle{fresh_nonce(), 7, INT64_MAX, "z"}}) {
    auto parsed = parse_handle(to_text(one));
    CHECK(parsed.is_ok());
    CHECK(parsed.value() == one);
  }
}

TEST(what_is_malformed_is_refused_and_the_error_says_where) {
  const std::string good = handle('a', 3);
  CHECK_EQ(why(good), std::string());
  CHECK(why("").find("does not begin with") != std::string::npos);
  CHECK(why("gloo:1:2").find("does not begin with") != std::string::npos);
  CHECK(why("nccl2").find("number of a format") != std::string::npos);
  CHECK(why("nccl2:x:y").find("number of a format") != std::string::npos);
  CHECK(why("nccl2:2" + good.substr(7)).find("format is 2") != std::string::npos);
  CHECK(why(good + ":more").find("7 fields") != std::string::npos);
  CHECK(why("nccl2:1:" + nonce('a') + ":3").find("4 fields") != std::string::npos);
  CHECK(why("nccl2:1:" + nonce('g') + ":3:-1:here").find("nonce") != std::string::npos);
  CHECK(why("nccl2:1:" + nonce('a') + "0:3:-1:here").find("nonce") != std::string::npos);
  for (const char* rank : {"", "x", "-1", "03", "+3", " 3", "3 ", "99999999999"}) {
    CHECK(why("nccl2:1:" + nonce('a') + ":" + rank + ":-1:here").find("rank") != std::string::npos);
  }
  for (const char* uuid : {"", "1.5", "01", "99999999999999999999"}) {
    CHECK(why("nccl2:1:" + nonce('a') + ":3:" + uuid + ":here").find("uuid") != std::string::npos);
  }
  CHECK(why("nccl2:1:" + nonce('a') + ":3:-1:").find("no address") != std::string::npos);
  CHECK(why(std::string(5000, 'x')).size() < 400);
}

TEST(a_list_is_in_the_order_of_the_new_ranks) {
  auto group = make_membership(7, {handle('c', 2), handle('a', 0), handle('b', 1)}, true, nonce('a'));
  CHECK(group.is_ok());
  CHECK_EQ(group.value().rank, 1);
  CHECK_EQ(group.value().size(), 3);
  CHECK_EQ(group.value().members[0].nonce, nonce('c'));
  CHECK_EQ(group.value().secret(), nonce('c') + ":7");
}

TEST(a_set_is_ordered_by_old_rank_as_a_number_and_then_by_nonce) {
  std::vector<std::string> handles;
  for (int rank = 0; rank < 11; ++rank) handles.push_back(handle("0123456789a"[rank], rank));
  handles.push_back(handle('b', 2));  // a newcomer that was rank 2 somewhere else
  std::vector<std::string> agendas;
  for (int turn = 0; turn < 12; ++turn) {
    std::rotate(handles.begin(), handles.begin() + 5, handles.end());
    auto group = make_membership(1, handles, false, nonce('a'));
    CHECK(group.is_ok());
    CHECK_EQ(group.value().rank, 11);  // 10 comes after 9
    CHECK_EQ(group.value().members[2].nonce, nonce('2'));
    CHECK_EQ(group.value().members[3].nonce, nonce('b'));
    agendas.push_back(group.value().agenda());
  }
  CHECK(std::all_of(agendas.begin(), agendas.end(), [&](const std::string& one) { return one == agendas[0]; }));
}

TEST(members_that_were_given_other_handles_have_another_agenda) {
  const std::vector<std::string> handles{handle('a', 0), handle('b', 1)};
  const std::string agenda = make_membership(1, handles, true, nonce('a')).value().agenda();
  CHECK(agenda == make_membership(1, handles, true, nonce('b')).value().agenda());
  CHECK(agenda != make_membership(2, handles, true, nonce('a')).value().agenda());
  CHECK(agenda != make_membership(1, {handles[1], handles[0]}, true, nonce('a')).value().agenda());
  CHECK(agenda != make_membership(1, {handles[0], handle('b', 1, 5)}, true, nonce('a')).value().agenda());
}

TEST(wrong_lists_are_refused) {
  const std::vector<std::string> handles{handle('a', 0), handle('b', 1)};
  CHECK(make_membership(1, {}, true, nonce('a')).status().message().find("no handles") != std::string::npos);
  CHECK(make_membership(1, handles, true, nonce('c')).status().message().find("own handle") != std::string::npos);
  // The same member with an older handle is the same member.
  auto twice = make_membership(1, {handle('a', 0), handle('b', 1), handle('a', 2, 9)}, true, nonce('a'));
  CHECK(twice.status().message().find("twice") != std::string::npos);
  auto malformed = make_membership(1, {handle('a', 0), "nccl2:1:b"}, true, nonce('a'));
  CHECK(malformed.status().message().find("malformed") != std::string::npos);
}

CHECK_MAIN()
