// Keys, limits and help of [vertical]; what stands here becomes docs/job-file.md. Which keys are for which party is
// known where the party is: muster federated vertical.
#include "muster/federated/vertical/vertical_options.h"

#include <algorithm>

#include <fmt/format.h>

#include "muster/base/config.h"
#include "muster/base/text.h"
#include "muster/federated/enrolments.h"

namespace muster::federated {

void VerticalOptions::add_keys(Section& s) {
  s.field("id", &id,
          "Name of the column that says which row is whose: the parties train on the rows that all of them have. It is "
          "compared as text, without the blanks around it, and no party tells the others which ids it has.");
  s.field("parties", &parties,
          "The label holder's: names of the others. Everybody's part of the net is in this order: it is part of the "
          "result.");
  s.field("bottom", &bottom, "Widths of the hidden layers of a party's net on its own columns. Empty: none.")
      .range(1, 1e6);
  s.field("width", &width, "Numbers of each row that a party's net gives to the label holder's.").range(1, 65536);
  s.field("checkpoint_steps", &checkpoint_steps,
          "The label holder's: steps after which every party writes down where it is. After a death all go on from the "
          "newest that they have in common.")
      .range(1, 1e12);
}

void VerticalOptions::check(const Schema& schema, bool chosen) const {
  for (const Section& section : schema.sections()) {
    if (section.name() != "vertical") continue;
    for (const Field& field : section.fields()) {
      const std::string key = "vertical." + field.key();
      if (!chosen && schema.chosen(key))
        throw schema.invalid(key, "has no effect without data.partition = \"vertical\"", "Set that, or remove this.");
    }
  }
  if (!chosen) return;
  if (id.empty())
    throw schema.invalid("vertical.id", "nothing says which row is whose",
                         "Set it to the column that has the same text for the same row at every party.");
  for (auto name = parties.begin(); name != parties.end(); ++name) {
    if (!is_client_name(*name))
      throw schema.invalid("vertical.parties", fmt::format("\"{}\" is no name of a party", excerpt(*name, 80)),
                           "Use letters, digits and -._ , at most 64 of them.");
    if (std::find(parties.begin(), name, *name) != name)
      throw schema.invalid("vertical.parties", fmt::format("{} is there twice", *name), "Name each once.");
  }
}

}  // namespace muster::federated
