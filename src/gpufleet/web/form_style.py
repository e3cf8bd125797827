"""The style of forms: the colours of answers, one column on a phone, two on a screen."""

from __future__ import annotations

from gpufleet.report.palette import themed

FORM_STYLE = f"""
{themed("body")}
body{{margin:0;background:var(--page);color:var(--ink);color-scheme:light dark;font:15px/1.5 system-ui,sans-serif}}
.frame{{max-width:72rem;margin:0 auto;padding:.8rem 1rem;overflow-wrap:anywhere}}
.frame *{{box-sizing:border-box}}
header{{border-bottom:1px solid var(--grid)}}
a{{color:var(--line)}}
.frame h1{{font-size:1.3rem;margin:.4rem 0}}.frame h2{{font-size:1.08rem;margin:1.2rem 0 .3rem}}
.frame dl{{margin:.3rem 0}}.frame dt{{font-weight:600}}.frame dd{{margin:0 0 .5rem;color:var(--soft)}}
.fields{{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,20rem),1fr));gap:.8rem 1.2rem;
margin:.5rem 0 1rem}}
label{{display:block;font-weight:600}}
label small,.about{{display:block;font-weight:400;margin:.1rem 0;font-size:.82rem;color:var(--soft)}}
input[type=text],input[type=password],input[type=file]{{width:100%;font:inherit;font-weight:400;color:inherit;background:var(--page);
border:1px solid var(--soft);border-radius:.3rem;padding:.35rem .5rem;margin-top:.15rem}}
input[type=file]{{border-style:dashed;font-size:.82rem}}
button{{font:inherit;font-weight:600;color:var(--page);background:var(--line);border:0;border-radius:.3rem;
padding:.45rem 1rem;margin:.3rem .5rem .3rem 0;cursor:pointer}}
summary{{cursor:pointer;font-weight:600;padding:.2rem 0}}
:focus-visible{{outline:2px solid var(--line);outline-offset:2px}}
.problem{{color:var(--bad);background:var(--on-bad);border-radius:.4rem;padding:.5rem .8rem}}
.concerned input{{outline:2px solid var(--bad)}}
.frame pre{{white-space:pre-wrap;background:var(--code);padding:.6rem .8rem;border-radius:.4rem;font-size:.82rem}}
@media print{{header,form,.further{{display:none}}}}
"""
