"""The style of pages of HTML: a screen, a phone, the dark and two sheets of paper."""

from __future__ import annotations

from gpufleet.report.palette import themed

PHONE_PX = 640
STYLE = f"""
{themed(".gpufleet,.gpufleet-page")}
.gpufleet-page{{margin:0;background:var(--page);color-scheme:light dark}}
.gpufleet{{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:0 auto;padding:1.2rem 1rem 2rem;
color:var(--ink);background:var(--page);overflow-wrap:anywhere}}
.gpufleet *{{box-sizing:border-box}}
.gpufleet h1{{font-size:1.3rem;line-height:1.35;margin:0 0 .8rem}}
.gpufleet h2{{font-size:1.08rem;line-height:1.3;margin:1.7rem 0 .5rem}}
.gpufleet section{{margin-top:.8rem}}
.gpufleet p{{margin:.25rem 0}}.gpufleet ul{{margin:.2rem 0;padding-left:1.2rem}}.gpufleet li{{margin:.15rem 0}}
.gpufleet .remark,.gpufleet .notes p{{color:var(--soft);font-size:.88rem}}
.gpufleet .warning{{color:var(--bad);background:var(--on-bad);border-radius:.4rem;padding:.4rem .7rem}}
.gpufleet .notes{{margin-top:1.8rem;border-top:1px solid var(--grid)}}
.gpufleet .facts{{display:grid;grid-template-columns:repeat(auto-fit,minmax(10.5rem,1fr));gap:.6rem;margin:.8rem 0}}
.gpufleet .fact{{background:var(--panel);border:1px solid var(--grid);border-radius:.5rem;padding:.55rem .8rem}}
.gpufleet dt{{font-size:.8rem;color:var(--soft)}}
.gpufleet dd{{margin:0;font-size:1.25rem;font-weight:600;line-height:1.3}}
.gpufleet dd.note{{font-size:.8rem;font-weight:400;color:var(--soft);margin-top:.15rem}}
.gpufleet .good{{background:var(--on-good)}}.gpufleet .tight{{background:var(--on-tight)}}
.gpufleet .bad{{background:var(--on-bad)}}.gpufleet .good dd:not(.note){{color:var(--good)}}
.gpufleet .tight dd:not(.note){{color:var(--tight)}}.gpufleet .bad dd:not(.note){{color:var(--bad)}}
.gpufleet .good dt,.gpufleet .tight dt,.gpufleet .bad dt,.gpufleet .good .note,.gpufleet .tight .note,
.gpufleet .bad .note{{color:var(--ink)}}
.gpufleet table{{border-collapse:collapse;width:auto;max-width:100%;font-variant-numeric:tabular-nums;font-size:.88rem}}
.gpufleet th,.gpufleet td{{padding:.3rem .9rem .3rem 0;text-align:left;vertical-align:top;
border-bottom:1px solid var(--grid);background:none;color:inherit}}
.gpufleet th{{font-weight:600;vertical-align:bottom;color:var(--soft)}}
.gpufleet .right{{text-align:right}}.gpufleet .short{{white-space:nowrap}}
.gpufleet tr.chosen td{{font-weight:600}}.gpufleet tbody tr.chosen{{background:var(--panel)}}
.gpufleet .wide{{overflow-x:auto}}.gpufleet .wide td{{white-space:nowrap}}
.gpufleet .unseen{{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}}
.gpufleet .range{{width:42%;min-width:9rem}}.gpufleet .bar{{display:block}}
.gpufleet .bar .room{{fill:var(--grid)}}.gpufleet .bar .kept{{fill:var(--line)}}.gpufleet .bar .over{{fill:var(--over)}}
.gpufleet .bar .mark,.gpufleet .bar .limit{{fill:var(--ink)}}
.gpufleet pre{{font:.82rem/1.5 ui-monospace,monospace;background:var(--code);border-radius:.4rem;padding:.6rem .8rem;
margin:.4rem 0;white-space:pre-wrap;color:inherit}}
.gpufleet figure{{margin:.3rem 0}}.gpufleet figure svg{{display:block;width:100%;max-width:60rem;height:auto}}
.gpufleet .on-phones{{display:none}}
.gpufleet details{{margin:.4rem 0}}.gpufleet summary{{cursor:pointer;color:var(--soft);font-size:.88rem}}
.gpufleet summary h2{{display:inline;margin:0;color:var(--ink);font-size:1rem}}
.gpufleet .wide:focus-visible,.gpufleet summary:focus-visible{{outline:2px solid var(--line)}}
@media (max-width:{PHONE_PX}px){{
.gpufleet{{padding:.8rem .75rem 1.5rem}}.gpufleet h1{{font-size:1.12rem}}
.gpufleet .facts{{grid-template-columns:1fr 1fr}}.gpufleet dd{{font-size:1.08rem}}
.gpufleet .on-screens{{display:none}}.gpufleet .on-phones{{display:block}}
.gpufleet .cards,.gpufleet .cards tbody{{display:block;width:100%}}
.gpufleet .cards thead{{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}}
.gpufleet .cards tr{{display:grid;grid-template-columns:repeat(3,1fr);gap:.15rem .7rem;padding:.45rem .4rem;
border-bottom:1px solid var(--grid)}}
.gpufleet .cards td{{display:block;border:0;padding:0;text-align:left;white-space:normal;grid-column:span 2}}
.gpufleet .cards td.short{{grid-column:auto}}
.gpufleet .numbered tr{{position:relative;padding-left:2.4rem}}
.gpufleet .numbered td:first-child{{position:absolute;left:.4rem;top:.45rem}}
.gpufleet .cards td[data-label]:not([data-label=""])::before{{content:attr(data-label);display:block;
font-size:.72rem;font-weight:400;line-height:1.2;color:var(--soft)}}
.gpufleet .cards .range{{width:100%;grid-column:1/-1}}
}}
@page{{size:A4;margin:11mm}}
@media print{{.gpufleet{{max-width:none;padding:0;font-size:9pt;line-height:1.35}}
.gpufleet h1{{font-size:12.5pt}}.gpufleet section{{margin-top:5pt}}
.gpufleet h2{{font-size:10pt;margin:9pt 0 3pt;break-after:avoid}}
.gpufleet table{{font-size:7.5pt}}.gpufleet th,.gpufleet td{{padding:1.5pt 6pt 1.5pt 0}}
.gpufleet .facts{{grid-template-columns:repeat(auto-fit,minmax(6.5rem,1fr));gap:4pt;margin:5pt 0}}
.gpufleet .fact{{padding:3pt 6pt}}.gpufleet dd{{font-size:11pt}}
.gpufleet dt,.gpufleet dd.note,.gpufleet .remark,.gpufleet .notes p,.gpufleet summary{{font-size:7.5pt}}
.gpufleet pre{{font-size:7.5pt;padding:4pt}}.gpufleet .wide{{overflow:visible}}.gpufleet .wide td{{white-space:normal}}
.gpufleet tr,.gpufleet figure,.gpufleet pre,.gpufleet .fact{{break-inside:avoid}}
.gpufleet thead{{display:table-header-group}}.gpufleet details:not([open]){{display:none}}
.gpufleet figure svg{{max-width:86%}}}}
"""
