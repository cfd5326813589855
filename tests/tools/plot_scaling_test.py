"""Tests of tools/plot_scaling: rows in, a picture out that is well-formed and shows what the rows say."""

import json
import subprocess
import sys
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

TOOL = Path(__file__).resolve().parent.parent.parent / "tools/plot_scaling"
SVG = "{http://www.w3.org/2000/svg}"


def row(model, strategy, workers, rate, efficiency=None):
    fields = {"bench": "step", "model": model, "strategy": strategy, "workers": workers, "samples_per_s": rate}
    return json.dumps(fields if efficiency is None else fields | {"efficiency": efficiency})


def plot(lines):
    return subprocess.run([sys.executable, "-B", str(TOOL), "-"], input="\n".join(lines), text=True, capture_output=True)


class PlotScaling(unittest.TestCase):
    def drawn(self, lines):
        done = plot(lines)
        self.assertEqual(done.returncode, 0, done.stderr)
        return ElementTree.fromstring(done.stdout)

    def test_shows_every_model_strategy_and_value(self):
        picture = self.drawn([
            row("mlp", "shared_sync", 1, 1000, 1.0), row("mlp", "shared_sync", 2, 1900, 0.95),
            row("mlp", "ddp", 1, 800, 1.0), row("mlp", "ddp", 2, 900, 0.5625), "",
            row("res<net>", "shared_sync", 2, 210),
        ])
        words = [item.text for item in picture.iter(SVG + "text")]
        for expected in ("mlp: samples/s", "mlp: efficiency", "res<net>: samples/s", "shared_sync", "ddp", "1,900", "900",
                         "0.95", "0.56", "210"):
            self.assertIn(expected, words)
        self.assertNotIn("res<net>: efficiency", words)

    def test_rows_of_hosts_stand_by_the_rate_of_their_links(self):
        def between(link, strategy, rate, share=None):
            fields = {"model": "mlp", "strategy": strategy, "workers": 2, "samples_per_s": rate, "link": link}
            return json.dumps(fields if share is None else fields | {"of_ceiling": share})
        picture = self.drawn([between("10gbit", "shared_sync", 900, 0.9), between("10gbit", "apart", 1000),
                              between("1gbit", "shared_sync", 300, 0.3), between("1gbit", "apart", 1000)])
        words = [item.text for item in picture.iter(SVG + "text")]
        for expected in ("1gbit", "10gbit", "0.90", "- - apart"):
            self.assertIn(expected, words)
        self.assertNotIn("apart", words)
        points = [(float(point.get("cx")), float(point.get("cy"))) for point in picture.iter(SVG + "circle")][:2]
        self.assertLess(points[0][0], points[1][0])
        self.assertGreater(points[0][1], points[1][1])
        self.assertIn("line 1", plot([between("fast", "ddp", 1)]).stderr)

    def test_a_higher_rate_stands_higher_and_everything_inside(self):
        picture = self.drawn([row("mlp", "ddp", 1, 100), row("mlp", "ddp", 2, 150), row("mlp", "ddp", 4, 160)])
        heights = [float(point.get("cy")) for point in picture.iter(SVG + "circle")]
        self.assertEqual(len(heights), 3)
        self.assertEqual(heights, sorted(heights, reverse=True))
        places = [float(point.get("cx")) for point in picture.iter(SVG + "circle")]
        self.assertEqual(places, sorted(set(places)))
        width, height = float(picture.get("width")), float(picture.get("height"))
        self.assertTrue(all(0 < x < width for x in places) and all(0 < y < height for y in heights))

    def test_refuses_what_is_no_row_and_names_the_line(self):
        for bad in ("nonsense", '{"model": "mlp"}', "[1]"):
            done = plot([row("mlp", "ddp", 1, 100), bad])
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("line 2", done.stderr)
        self.assertIn("no rows", plot([]).stderr)


if __name__ == "__main__":
    unittest.main()
