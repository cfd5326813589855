// What both kinds of party of vertical training are told on the command line, and what of the program is each one's.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "muster/data/data_form.h"
#include "muster/federated/vertical/vertical_calls.h"
#include "muster/trainer/job.h"

namespace muster::cli {

struct PartyFlags {
  std::string job;
  std::vector<std::string> assignments;
  std::string certs;
  bool insecure = false;
  double wait_seconds = 3600;
  bool quiet = false;
  std::string predict;  // a file of new rows; empty: to train

  std::chrono::nanoseconds patience() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(wait_seconds));
  }
};

struct LabelsFlags : PartyFlags {
  std::string listen = "127.0.0.1:7430";
  std::vector<std::string> with;
  bool resume = false;
  std::string run;
  bool begin_anew = false;
  bool json = false;
  std::string out;  // of predictions
  bool probabilities = false;
};

struct ColumnsFlags : PartyFlags {
  std::string join;
  std::string name;
  std::string state = "vertical-state";
  std::string net;
};

// The job of a party. Throws Error{kInvalidInput} for one that is no vertical training.
trainer::ResolvedJob load_party_job(const PartyFlags& flags);

// The label holder, until all is trained or, of new rows, predicted; gives the exit code.
int run_label_holder(const LabelsFlags& flags);
int predict_as_label_holder(const LabelsFlags& flags);

// Of a party with columns: `folder` has what it trained, and `resolved` must be the job of then. Throws
// Error{kMismatch}.
void require_job_of_then(const std::filesystem::path& folder, const trainer::ResolvedJob& resolved);

// How a party's new rows are read: as those that its net in `folder` was trained on. Throws Error{kNotFound} when no
// net is there, kDamaged.
data::DataForm form_of_net(const std::filesystem::path& folder);
void write_form(const std::filesystem::path& folder, const data::DataForm& form);
// Of what training that net is. Throws Error{kMismatch} when the folder's was not trained to its end, and as
// PartyFiles.
federated::NetMark mark_of_net(const std::filesystem::path& folder);
// The newest trained net of the party in its state. Throws Error{kNotFound}.
std::filesystem::path newest_net(const std::filesystem::path& state, const std::string& name);

}  // namespace muster::cli
