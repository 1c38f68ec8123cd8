#include "agent/process/admissions.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "agent/state/private_file.h"
#include "gossip/net/identity.h"
#include "gossip/net/member_keys.h"

namespace starling {
namespace {

constexpr const char* kHead = "# signed by the swarm's key beside this file; starling members shows it\n";

std::string path_of(const std::string& folder) { return folder + "/" + kAdmissionsFile; }

std::string line_of(const SignedRow& row) {
  const std::string begin = std::to_string(row.serial) + " " + row.id.hex() + " ";
  if (row.revocation.empty()) return begin + "admitted " + std::to_string(row.not_after) + "\n";
  const auto* bytes = reinterpret_cast<const uint8_t*>(row.revocation.data());
  return begin + "revoked " + to_base64({bytes, row.revocation.size()}) + "\n";
}

bool read_line(const std::string& line, SignedRow& row) {
  std::istringstream words(line);
  std::string id, kind, rest, more;
  if (!(words >> row.serial >> id >> kind >> rest) || words >> more) return false;
  const std::optional<PeerId> parsed = PeerId::parse(id);
  if (!parsed) return false;
  row.id = *parsed;
  if (kind == "admitted") {
    row.not_after = std::strtoull(rest.c_str(), nullptr, 10);
    return std::to_string(row.not_after) == rest;
  }
  const std::vector<uint8_t> bytes = from_base64(rest);
  row.revocation.assign(bytes.begin(), bytes.end());
  return kind == "revoked" && bytes.size() == kRevocationBytes;
}

}  // namespace

bool holds_admissions(const std::string& folder) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::symlink_status(path_of(folder), error));
}

void begin_admissions(const std::string& folder) {
  if (!holds_admissions(folder)) write_private_file(path_of(folder), kHead, *make_file_ops());
}

std::vector<SignedRow> read_admissions(const std::string& folder) {
  std::vector<SignedRow> rows;
  std::istringstream lines(read_private_file(path_of(folder), kAdmissionsBytesMax).value_or(""));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    if (read_line(line, rows.emplace_back())) continue;
    throw std::runtime_error(path_of(folder) + " is damaged in the line '" + line.substr(0, 40) +
                             "...'; restore it from a copy, or remove that line: what it says is forgotten then");
  }
  return rows;
}

std::string revocations_in(const std::string& folder) {
  std::string all;
  for (const SignedRow& row : read_admissions(folder)) all += row.revocation;
  return all;
}

AdmissionBook::AdmissionBook(const std::string& folder) : folder_(folder) {
  fd_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd_ >= 0) (void)::flock(fd_, LOCK_EX);  // without locks, two commands at once may lose a line
  try {
    rows_ = read_admissions(folder);
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

AdmissionBook::~AdmissionBook() { ::close(fd_); }

bool AdmissionBook::revoked(const PeerId& id) const {
  return std::any_of(rows_.begin(), rows_.end(),
                     [&](const SignedRow& row) { return row.id == id && !row.revocation.empty(); });
}

void AdmissionBook::store() const {
  std::string text = kHead;
  for (const SignedRow& row : rows_) text += line_of(row);
  if (text.size() > kAdmissionsBytesMax) {
    throw std::runtime_error("this swarm's key has signed as many tickets as " + path_of(folder_) +
                             " can hold, and nothing more is signed: begin another swarm from the trained model "
                             "(starling init --from " +
                             folder_ + " new.yaml)");
  }
  write_private_file(path_of(folder_), text, *make_file_ops());
}

}  // namespace starling
